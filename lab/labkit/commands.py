# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab command can do, one function per command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time

from . import network, shared
from .host import HOST_PARTS, Host
from .inventory import write_index
from .run import LabError, run
from .size import sizes_for

KERNEL_MODULES = ("overlay", "loop", "tun", "veth", "bridge", "fuse")


def say(text):
    print("lab: " + text, flush=True)


def hosts_of(lab):
    """The hosts that were made, in the order of their numbers."""
    directory = lab.state / "hosts"
    names = [entry.name for entry in directory.iterdir()] if directory.exists() else []
    numbers = sorted(
        int(name[len(lab.name) :]) for name in names if name.startswith(lab.name) and name[len(lab.name) :].isdigit()
    )
    return [Host(lab, number) for number in numbers]


def host_called(lab, name):
    """A host by its name or number."""
    for host in hosts_of(lab):
        if name in (host.name, str(host.number)):
            return host
    known = ", ".join(host.name for host in hosts_of(lab)) or "none: run 'lab up' first"
    raise LabError("no host %s in lab %s (there is %s)" % (name, lab.name, known))


# --- the whole lab
def up(lab, count, size_arguments):
    started = time.monotonic()
    sizes = sizes_for(count, size_arguments)
    for module in KERNEL_MODULES:  # built into some kernels
        subprocess.run(["modprobe", "-q", module], check=False, stderr=subprocess.DEVNULL)
    _build_shim(lab)
    lab.claim_slot()
    _make_keys(lab)
    network.networks_up(lab)
    shared.shared_up(lab)
    shared.share_image(lab)
    lab.control_sockets.mkdir(exist_ok=True)
    hosts = [Host(lab, number) for number in range(1, count + 1)]
    for host in hosts:
        if host.is_made and size_arguments and host.size != sizes[host.number]:
            raise LabError("%s is there with another size (%s); 'lab down' first" % (host.name, host.size))
        host.make(sizes[host.number])
    hosts = hosts_of(lab)
    write_index(lab, hosts)
    _boot_all(lab, hosts)
    say("%d hosts up in %.1f s, inventory %s" % (len(hosts), time.monotonic() - started, lab.inventory))


def _build_shim(lab):
    shim, code = lab.cache / "shim.so", HOST_PARTS / "shim.c"
    if shim.exists() and shim.stat().st_mtime >= code.stat().st_mtime:
        return
    if not shutil.which("gcc"):
        raise LabError("gcc is missing: run lab/setup first")
    lab.cache.mkdir(exist_ok=True)
    fresh = shim.with_suffix(".%d" % os.getpid())
    run("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", fresh, code, "-ldl")
    fresh.replace(shim)


def _make_keys(lab):
    if not lab.key.exists():
        lab.key.parent.mkdir(mode=0o700, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab " + lab.name, "-f", lab.key)
    lab.known_hosts.touch()
    lab.etc_hosts.touch()


def _boot_all(lab, hosts):
    """libvirtd probes QEMU at its first start, seconds of CPU; what it learned is handed on to every other host."""
    store = lab.cache / "qemu-capabilities"
    if not store.exists() and not any(host.is_ready for host in hosts):
        hosts[0].boot()
        hosts[0].wait_ready()
        hosts[0].run("virsh", "-q", "domcapabilities", "--virttype", "qemu")
    _keep_capabilities(hosts[0], store)
    for host in hosts:
        learned = host.upper / "var/cache/libvirt/qemu/capabilities"
        if store.exists() and not learned.exists():
            shutil.copytree(store, learned)
        host.boot()
    for host in hosts:
        host.wait_ready()


def _keep_capabilities(host, store):
    learned = host.upper / "var/cache/libvirt/qemu/capabilities"
    if learned.exists() and any(learned.iterdir()) and not store.exists():
        fresh = store.with_suffix(".%d" % os.getpid())
        shutil.copytree(learned, fresh)
        try:
            fresh.rename(store)
        except OSError:  # another lab was faster
            shutil.rmtree(fresh)


def down(lab):
    """Ends everything and removes every trace of the lab; the guests' disks too."""
    if not lab.is_known:
        say("%s is not up" % lab.name)
        return
    _end_ssh_masters(lab)
    hosts = hosts_of(lab)
    for host in hosts:
        host.power_cut()
    network.networks_down(lab)
    shared.shared_down(lab)
    shutil.rmtree(lab.control_sockets, ignore_errors=True)
    lab.release_slot()
    shutil.rmtree(lab.state)
    say("%s is down" % lab.name)


def _end_ssh_masters(lab):
    """Ansible keeps connections open for a minute; they are processes of this lab too."""
    if lab.control_sockets.exists():
        for socket in lab.control_sockets.iterdir():
            run("ssh", "-O", "exit", "-o", "ControlPath=%s" % socket, "lab", check=False)


def status(lab, as_json):
    rows = [_status_of(host) for host in hosts_of(lab)] if lab.is_known else []
    if as_json:
        guests = {"cidr": lab.guests + ".0/24", "gateway": lab.guests + ".1"} if lab.is_known else None
        print(
            json.dumps(
                {
                    "name": lab.name,
                    "state": str(lab.state),
                    "inventory": str(lab.inventory),
                    "guests": guests,
                    "hosts": rows,
                }
            )
        )
        return
    if not rows:
        say("%s is not up" % lab.name)
    for row in rows:
        size = row["size"]
        print(
            "%-12s %-5s %-14s cpus=%d mem=%dMiB cells=%d disk=%dGiB guests=%s"
            % (
                row["name"],
                row["power"],
                row["address"],
                size["cpus"],
                size["mem"],
                size["cells"],
                size["disk"] >> 30,
                "?" if row["guests"] is None else len(row["guests"]),
            )
        )


def _status_of(host):
    guests = None
    if host.is_ready:
        listed = host.run("timeout", "5", "virsh", "-q", "list", "--name", check=False)
        guests = listed.stdout.split() if listed.returncode == 0 else None
    return {
        "name": host.name,
        "power": "up" if host.pid else "down",
        "ready": host.is_ready,
        "address": host.address,
        "directory": str(host.directory),
        "uuid": host.uuid,
        "size": host.size.to_dict(),
        "guests": guests,
    }


# --- one host
def start(lab, name):
    host = host_called(lab, name)
    host.boot()
    host.wait_ready()


def stop(lab, name):
    host_called(lab, name).power_off()


def crash(lab, name):
    host_called(lab, name).power_cut()


def cut(lab, name):
    network.set_links(host_called(lab, name), "down")


def heal(lab, name):
    network.set_links(host_called(lab, name), "up")


def libvirtd(lab, name):
    host_called(lab, name).run("service", "libvirtd", "restart")


def libvirtd_kill(lab, name):
    host_called(lab, name).run("sh", "-c", "kill -9 $(cat /run/libvirtd.pid)")


def hang(lab, name, domain):
    host = host_called(lab, name)
    host.run("kill", "-STOP", host.qemu_pid(domain))


def unhang(lab, name, domain):
    host = host_called(lab, name)
    host.run("kill", "-CONT", host.qemu_pid(domain))


def execute(lab, name, argv):
    words = [*host_called(lab, name).enter(), *argv]
    os.execvp(words[0], words)
