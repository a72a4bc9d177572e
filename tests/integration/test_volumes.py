# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes, seen from outside and from inside the guest (C26)."""

from __future__ import annotations

import hashlib
import os
from xml.etree import ElementTree

import pytest

from playbooks import catalog, homes, vm

FILES = "find /var/lib/libvirt/berth/volumes /var/lib/berth/volumes -type f 2>/dev/null; true"
# the lab's guest writes once on the disk that is called data, and says what is on it at every later boot
VOLUMES = {"berth_volumes_defined": {"data": {"size_gb": 1}, "more": {"size_gb": 2, "image": "guest"}}}


def play(lab, path, playbook, *more, **options):
    every = ("-e", "berth_all=true") if playbook == "update_disks" else ()
    return lab.ansible_playbook("berth.kvm." + playbook, *every, *more, inventory=[path], **options)


def test_what_a_guest_wrote_on_a_volume_is_there_after_delete_and_create(lab, image, inventory):
    """Then it is detached while the guest runs, and deleted; and images are removed when nothing needs them any more."""
    path = inventory(
        {"a": vm(volumes=["data"], user_data="#cloud-config\n# lab-writer: on\n")}, catalog(image, **VOLUMES)
    )
    play(lab, path, "create")
    first = lab.guest_facts("a", timeout=180, until=lambda said: said["extra"] == "new")
    home = homes(lab)["a"]
    refused = play(lab, path, "delete_volume", "-e", "berth_volume=data", check=False)
    assert refused.rc and "attached to a" in refused.output
    play(lab, path, "delete", "--limit", "a")
    assert homes(lab) == {} and len(lab.sh(home, FILES).stdout.split()) >= 2

    explained = play(lab, path, "create", "-v").output
    assert homes(lab) == {"a": home} and "volume data is on %s" % home in explained
    again = lab.guest_facts("a", home, timeout=180, until=lambda said: said["nonce"] != first["nonce"])
    assert again["extra"] == first["nonce"]
    assert set(play(lab, path, "create").changed.values()) == {0}

    none = {"extra_vars": {"berth_volumes": {}}}
    assert play(lab, path, "update_disks", **none).changed["a"] > 0
    lab.guest_facts("a", home, timeout=60, until=lambda said: 1 << 30 not in list(said["disks"].values())[1:])
    assert play(lab, path, "update_disks", **none).changed.get("a", 0) == 0
    new = {"extra_vars": {"berth_volumes": {"more": {"boot_index": 1}}}}
    assert "disks would be updated" in play(lab, path, "update_disks", "--check", **new).output
    assert play(lab, path, "update_disks", **new).changed["a"] > 0
    lab.guest_facts("a", home, timeout=60, until=lambda said: 2 << 30 in list(said["disks"].values())[1:])
    definition = ElementTree.fromstring(lab.sh(home, "virsh dumpxml --inactive $(virsh -q list --uuid)").stdout)
    disks = {disk.findtext("serial"): disk for disk in definition.iterfind("devices/disk")}
    assert disks["more"].find("boot").get("order") == "2"
    made = "qemu-img compare -U %s %s" % (disks["more"].find("source").get("file"), image["url"])
    assert "identical" in lab.sh(home, made).stdout
    play(lab, path, "update_disks", **none)
    cached = "test -e /var/lib/libvirt/berth/images/" + image["checksum"].split(":")[1]
    unused = ("--limit", home, "-e", "berth_host_remove_unused_images=true")
    play(lab, path, "prepare_hosts", *unused)
    lab.sh(home, cached)
    assert play(lab, path, "prepare_hosts", *unused).changed[home] == 0
    play(lab, path, "delete_volume", "-e", "berth_volume=more")
    play(lab, path, "delete_volume", "-e", "berth_volume=data")
    assert [line for line in lab.sh(home, FILES).stdout.split() if not line.endswith("/lock")] == []
    assert "is on no host" in play(lab, path, "delete_volume", "-e", "berth_volume=data").output
    play(lab, path, "delete", "--limit", "a")
    assert "unused_images" in play(lab, path, "prepare_hosts", "--check", "--diff", *unused).output
    lab.sh(home, cached)
    assert play(lab, path, "prepare_hosts", *unused).changed[home] > 0
    lab.sh(home, "! " + cached)


@pytest.mark.slow
def test_volumes_are_made_from_an_image_on_the_controller_with_their_instance_and_when_it_runs(
    lab, image, inventory, tmp_path
):
    file = tmp_path / "tools disk.img"
    file.write_bytes(os.urandom(1 << 20))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    tools = {"upload": str(file), "checksum": "sha256:" + digest, "disk_format": "raw"}
    names = {"with": {"size_gb": 1, "image": "tools"}, "later": {"size_gb": 2, "image": "tools"}}
    catalogs = catalog(image, berth_images={"guest": image, "tools": tools}, berth_volumes_defined=names)
    play(lab, inventory({"a": vm(volumes=["with"])}, catalogs), "create")
    home = homes(lab)["a"]
    cached = "/var/lib/libvirt/berth/images/" + digest
    lab.sh(home, "rm " + cached)  # as prepare_hosts does with an image that nothing needs
    path = inventory({"a": vm(volumes=["with", "later"])}, catalogs)
    assert play(lab, path, "update_disks").changed["a"] > 0
    file.unlink()
    assert play(lab, path, "update_disks").changed.get("a", 0) == 0
    definition = ElementTree.fromstring(lab.sh(home, "virsh dumpxml $(virsh -q list --uuid)").stdout)
    made = {disk.findtext("serial"): disk.find("source").get("file") for disk in definition.iterfind("devices/disk")}
    for name in names:
        assert "identical" in lab.sh(home, "qemu-img compare -U -F raw %s %s" % (made[name], cached)).stdout
    play(lab, path, "delete", "--limit", "a")
    play(lab, path, "create")  # the volumes are there, so nobody needs the file
    assert homes(lab) == {"a": home}


@pytest.mark.slow
def test_a_volume_goes_with_its_instance_to_a_host_with_another_storage_and_back(lab, image, inventory):
    more = {"berth_volumes_defined": {"data": {"size_gb": 1}}}
    path = inventory({"a": vm(volumes=["data"], user_data="#cloud-config\n# lab-writer: on\n")}, catalog(image, **more))
    play(lab, path, "create")
    home = homes(lab)["a"]
    first = lab.guest_facts("a", home, timeout=180, until=lambda said: said["extra"] == "new")

    def arrives(boots):
        there = homes(lab)["a"]
        said = lab.guest_facts("a", there, timeout=180, until=lambda said: said["boots"] == boots)
        assert said["extra"] == first["nonce"], "what the guest wrote on the volume is not there"
        return there

    def volumes_on(host):
        return [name for name in lab.sh(host, FILES).stdout.split() if name.endswith((".qcow2", "record.json"))]

    play(lab, path, "cold_migrate", "--limit", "a")
    there = arrives(2)
    assert there != home and len(volumes_on(home)) == len(volumes_on(there)) == 2
    kept = play(lab, path, "revert_resize", "--limit", "a", check=False)
    assert kept.rc and "VolumeWritesLost" in kept.output and arrives(2) == there
    play(lab, path, "revert_resize", "--limit", "a", "-e", "berth_revert_volumes=true")
    assert arrives(2) == home and volumes_on(there) == []
    play(lab, path, "cold_migrate", "--limit", "a")
    there = arrives(3)
    play(lab, path, "confirm_resize", "--limit", "a")
    assert volumes_on(home) == [] and len(volumes_on(there)) == 2
    assert set(play(lab, path, "create").changed.values()) == {0}
    play(lab, path, "live_migrate", "--limit", "a")
    assert homes(lab)["a"] != there and volumes_on(there) == []
    play(lab, path, "reboot", "--limit", "a", "-e", "berth_reboot=hard")
    there = arrives(4)
    play(lab, path, "delete", "--limit", "a")
    play(lab, path, "delete_volume", "-e", "berth_volume=data")
    assert volumes_on(there) == []


def test_a_guest_boots_from_a_volume_and_what_it_wrote_is_there_when_it_is_booted_again(lab, image, inventory):
    """After delete and create, and then by another instance."""
    catalogs = catalog(image, berth_volumes_defined={"os": {"size_gb": 2}})
    boot = {"os": {"boot_index": 0}}
    path = inventory({"b": vm(volumes=boot), "c": vm(volumes=boot)}, catalogs)
    play(lab, path, "create", "--limit", "b")
    home = homes(lab)["b"]
    first = lab.guest_facts("b", home, timeout=180)
    assert (first["boots"], first["disk"]) == (1, 2 << 30)
    assert "root." not in lab.sh(home, "find /var/lib/libvirt/berth/instances -type f").stdout
    for name, boots in (("b", 2), ("c", 3)):
        play(lab, path, "delete", "--limit", "b,c")
        play(lab, path, "create", "--limit", name)
        again = lab.guest_facts(name, home, timeout=180, until=lambda said, boots=boots: said["boots"] == boots)
        assert again["nonce"] == first["nonce"] and homes(lab) == {name: home}
    refused = play(lab, path, "create", "--limit", "b", check=False)
    assert refused.rc and "attached to c" in refused.output
