# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside the guest as root and prints what is there as one JSON document. Needs what Debian's image has."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import time


def read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return None


def ask(*argv):
    return subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()


def size(path):
    there = os.statvfs(path)
    return there.f_blocks * there.f_frsize


def mounted(path):
    """The device and its size of what is mounted there; None where nothing is."""
    return {"device": ask("findmnt", "-no", "SOURCE", path), "bytes": size(path)} if os.path.ismount(path) else None


def swaps():
    """[(device, bytes)] of what the kernel swaps to."""
    lines = [line.split() for line in read("/proc/swaps").splitlines()[1:]]
    return [(line[0], int(line[2]) * 1024) for line in lines]


def addresses():
    """{MAC: [address/prefix]} without link-local ones."""
    found = {}
    for link in json.loads(ask("ip", "-j", "address")):
        if link["link_type"] == "ether":
            parts = [entry for entry in link["addr_info"] if entry["scope"] == "global"]
            found[link["address"]] = sorted("%s/%d" % (part["local"], part["prefixlen"]) for part in parts)
    return found


def secure_boot():
    """What the firmware says: a variable of four bytes of attributes and one of truth."""
    for path in glob.glob("/sys/firmware/efi/efivars/SecureBoot-*"):
        with open(path, "rb") as stream:
            return stream.read()[4] == 1
    return False


def cloud_init():
    return {
        "instance_id": (read("/var/lib/cloud/data/instance-id") or "").strip(),
        "instances": sorted(os.listdir("/var/lib/cloud/instances")),
        "result": json.loads(read("/run/cloud-init/result.json") or "{}").get("v1"),
        "user_data": read("/var/lib/cloud/instance/user-data.txt"),
        "complaints": [
            line
            for line in (read("/var/log/cloud-init.log") or "").splitlines()
            if "[WARNING]" in line or "[ERROR]" in line
        ],
    }


def links(directory):
    """{name: device} of what udev names there."""
    return {os.path.basename(path): os.path.realpath(path) for path in glob.glob("/dev/disk/by-%s/*" % directory)}


def label(name):
    return os.path.realpath("/dev/disk/by-label/" + name)


print(
    json.dumps(
        {
            "hostname": ask("hostname"),
            "machine": read("/sys/class/dmi/id/product_name").strip(),
            "machine_id": read("/etc/machine-id").strip(),
            "boot": read("/proc/sys/kernel/random/boot_id").strip(),
            "time": time.time(),
            "vcpus": os.cpu_count(),
            "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "root": {"device": ask("findmnt", "-no", "SOURCE", "/"), "bytes": size("/")},
            "ephemeral": mounted("/mnt"),
            "swaps": swaps(),
            "labels": {name: label(name) for name in ("ephemeral0", "swap", "cidata")},
            "data": mounted("/srv/data"),
            "kept": [read("/mnt/kept"), read("/srv/data/kept")],
            "disks": links("id"),
            "listening": sorted({line.split()[3].rpartition(":")[2] for line in ask("ss", "-Hltn").splitlines()}),
            "addresses": addresses(),
            "routes": ask("ip", "route", "show", "default").splitlines(),
            "nameservers": ask("resolvectl", "dns").split(),
            "keys": [path + ": " + read(path) for path in glob.glob("/home/*/.ssh/authorized_keys")],
            "host_key": read("/etc/ssh/ssh_host_ed25519_key.pub"),
            "written": read("/etc/written-by-user-data"),
            "first_boots": (read("/var/log/first-boots") or "").splitlines(),
            "cloud_init": cloud_init(),
            "failed_units": ask("systemctl", "--failed", "--no-legend", "--plain").splitlines(),
            "ended_well": "Reached target" in ask("journalctl", "-b", "-1", "-n", "20", "--no-pager"),
            "efi": os.path.isdir("/sys/firmware/efi"),
            "secure_boot": secure_boot(),
        }
    )
)
