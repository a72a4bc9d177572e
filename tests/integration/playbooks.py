# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the playbooks share."""

from __future__ import annotations

import json
from pathlib import Path

CALLBACKS = Path(__file__).resolve().parent / "callbacks"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx0u8QH2m4zj0Z4Kq6b3v0gU3W1x8m0m9vN1l7Qk5Zs tester"
FLAVORS = {
    "tiny": {"vcpus": 1, "memory_mb": 128, "root_gb": 1},
    "two": {"vcpus": 2, "memory_mb": 192, "root_gb": 2},
    "half": {"vcpus": 1, "memory_mb": 2048, "root_gb": 1},
    "huge": {"vcpus": 64, "memory_mb": 128, "root_gb": 1},
}
# what a host may hold on to of an instance; empty output means that nothing is left
LEFT = """
virsh -q list --all --uuid
find /var/lib/berth/instances /var/lib/libvirt/berth/instances /run/berth/permits -mindepth 1 2>/dev/null
true
"""


def catalog(image, **more):
    """The variables for all hosts."""
    return {
        "berth_flavors": FLAVORS,
        "berth_images": {"guest": image},
        "berth_networks_defined": {"lan": {"type": "bridge", "source": "br0", "cidr": "{{ lab_guest_cidr }}"}},
        "berth_server_groups": {"pair": {"policy": "anti-affinity"}, "close": {"policy": "affinity"}},
        **more,
    }


def vm(flavor="tiny", **more):
    return {
        "berth_flavor": flavor,
        "berth_image": "guest",
        "berth_networks": ["lan"],
        **{"berth_" + key: value for key, value in more.items()},
    }


def watched(counts=None, at=None):
    """The environment in which the callback counts, and runs commands when tasks begin."""
    environment = {"ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS), "ANSIBLE_CALLBACKS_ENABLED": "berth_test"}
    if counts:
        environment["BERTH_TEST_COUNTS"] = str(counts)
    if at:
        environment["BERTH_TEST_AT"] = json.dumps(at)
    return environment


def records(lab):
    """[(host, instance name, role)] of all hosts that are up."""
    found = []
    for row in lab.status()["hosts"]:
        if row["power"] == "up":
            text = lab.sh(row["name"], "cat /var/lib/berth/instances/*/record.json 2>/dev/null; true").stdout
            decoder, at = json.JSONDecoder(), 0
            while at < len(text.rstrip()):
                record, at = decoder.raw_decode(text, at)
                found.append((row["name"], record["name"], record["role"]))
    return sorted(found)


def homes(lab):
    """Instance name -> the host that owns it; fails where two do (I1)."""
    owners = [(name, host) for host, name, role in records(lab) if role == "OWN"]
    assert len(dict(owners)) == len(owners), owners
    return dict(owners)


def left(lab):
    """What hosts hold of instances: {host: text} of those that hold anything (I5)."""
    texts = {
        row["name"]: lab.sh(row["name"], LEFT).stdout.strip() for row in lab.status()["hosts"] if row["power"] == "up"
    }
    return {host: text for host, text in texts.items() if text}
