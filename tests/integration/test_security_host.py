# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host must hold to whatever is sent: the gate, foreign domains, images, secrets, modes (I1, I5, I9, I10)."""

from __future__ import annotations

import pytest
from client import CommandFailed
from host_side import request

FOREIGN = """<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices/></domain>"""
CANARY = "canary-4f1c9d7e"


@pytest.fixture
def side(lab, code_on_host):
    return code_on_host


def build(side, image, name="web-1", user_data=None, **changes):
    spec, seed = request(name, image, **changes)
    claimed = side.call("claim", claims=[{"spec": spec, "token": "t1"}])["result"][0]
    assert claimed["claimed"], claimed
    web = {"uuid": spec["uuid"], "spec": spec, "seed": {**seed, "user_data": user_data}, "token": "t1"}
    return web, side.call("started", **web)


def define_foreign(lab, side):
    lab.sh(
        side.host,
        "cat > /run/foreign.xml <<'X'\n%s\nX\nvirsh -q define /run/foreign.xml && virsh -q start %s"
        % (FOREIGN % "legacy", "legacy"),
    )


def test_without_its_permit_a_managed_guest_cannot_be_started_by_hand(lab, side, image):
    web, _built = build(side, image)
    side.call("stopped", uuid=web["uuid"], grace=0)
    with pytest.raises(CommandFailed, match="no permit to start"):
        lab.exec(side.host, "virsh", "-q", "start", web["uuid"])


def test_autostart_after_a_reboot_does_not_revive_a_managed_guest(lab, side, image):
    web, _built = build(side, image)
    lab.exec(side.host, "virsh", "-q", "autostart", web["uuid"])
    lab.crash(side.host)
    lab.start(side.host)
    assert web["uuid"] not in lab.domains(side.host)
    assert side.call("started", **web)["result"] is True
    assert web["uuid"] in lab.domains(side.host)


def test_guests_of_others_start_as_ever_and_are_not_claimed_over_or_removed(lab, side, image):
    define_foreign(lab, side)
    spec, _seed = request("legacy", image)
    error = side.call("claim", claims=[{"spec": spec, "token": "t1"}])["result"][0]["error"]
    assert error["code"] == "InstanceExists"
    side.call("absent", uuid=spec["uuid"])
    assert lab.domains(side.host) == ["legacy"]


def test_a_foreign_domain_with_the_uuid_is_neither_overwritten_nor_removed(lab, side, image):
    spec, seed = request("web-1", image)
    xml = (FOREIGN % "taken").replace("<memory", "<uuid>%s</uuid><memory" % spec["uuid"])
    side.call("claim", claims=[{"spec": spec, "token": "t1"}])
    lab.sh(side.host, "cat > /run/foreign.xml <<'X'\n%s\nX\nvirsh -q define /run/foreign.xml" % xml)
    error = side.call("started", uuid=spec["uuid"], seed=seed, token="t1")["error"]
    assert "InstanceExists" in str(error)
    assert lab.domains(side.host, every=True) == ["taken"]


BAD_IMAGES = {
    "a backing file": "qemu-img create -q -f qcow2 -F raw -b /etc/shadow $f 1M",
    "an external data file": "qemu-img create -q -f qcow2 -o data_file=$f.data $f 1M",
    "raw declared as qcow2": "yes raw | head -c 1M >$f",
    "larger than the flavor": "qemu-img create -q -f qcow2 $f 60T -o cluster_size=2M",
}


@pytest.mark.parametrize("make", BAD_IMAGES.values(), ids=list(BAD_IMAGES))
def test_a_bad_image_ends_the_build_for_every_host_and_leaves_nothing(lab, side, make):
    path = "/srv/shared/images/bad.img"
    checksum = lab.sh(side.host, "f=%s; rm -f $f $f.data; %s >/dev/null && sha256sum $f" % (path, make)).stdout.split()[
        0
    ]
    image = {"url": path, "checksum": "sha256:" + checksum, "disk_format": "qcow2"}
    _web, built = build(side, image)
    assert built["error"]["code"] in ("ImageInvalid", "FlavorTooSmall")
    assert not built["error"]["retryable"]
    assert side.traces() == []
    assert checksum not in lab.sh(side.host, "ls /var/lib/libvirt/berth/images").stdout


def test_a_missing_network_is_told_before_anything_is_claimed(side, image):
    nic = {"network": "lan", "type": "bridge", "source": "br9", "mac": "52:54:00:00:00:01", "model": "virtio"}
    spec, _seed = request("web-1", image, networks=[nic])
    claimed = side.call("claim", claims=[{"spec": spec, "token": "t1"}])["result"][0]
    assert (claimed["claimed"], claimed["error"]["retryable"]) == (False, True)
    assert "br9" in claimed["error"]["message"]
    assert side.traces() == []


def test_secrets_are_in_the_seed_alone_and_no_file_is_open_to_others(lab, side, image):
    web, _built = build(side, image, user_data="#cloud-config\n# %s\n" % CANARY)
    places = "/var/lib/berth /run/berth /etc/libvirt /run/libvirt/qemu /var/log/libvirt /var/lib/libvirt/berth"
    seen = lab.sh(
        side.host, "grep -rl %s %s; pgrep -fa '[q]emu-system' | grep -c canary; true" % (CANARY, places)
    ).stdout.split()
    assert seen == ["/var/lib/libvirt/berth/instances/%s/seed.iso" % web["uuid"], "0"]
    open_files = lab.sh(side.host, "find /var/lib/berth /run/berth /var/lib/libvirt/berth -type f -perm /077")
    assert open_files.stdout == ""
    open_directories = lab.sh(side.host, "find /var/lib/berth /run/berth /var/lib/libvirt/berth -type d -perm /066")
    assert open_directories.stdout == ""


def test_a_guest_whose_qemu_hangs_can_be_deleted(lab, side, image):
    web, _built = build(side, image)
    lab.hang(side.host, web["uuid"])
    assert side.call("absent", uuid=web["uuid"])["result"] is True
    assert side.traces() == []


def test_an_early_request_to_power_off_is_repeated(lab, side, image):
    """ACPI shutdown that is sent before the guest is up is lost."""
    web, _built = build(side, image)
    assert side.call("stopped", uuid=web["uuid"], grace=90)["result"] is True
    assert side.record(web["uuid"])["history"][-1]["forced"] is False


def test_a_domain_that_libvirt_lost_is_defined_again_with_its_old_disk(lab, side, image):
    web, _built = build(side, image)
    side.call("stopped", uuid=web["uuid"], grace=0)
    inode = side.root_inode(web["uuid"])
    lab.exec(side.host, "virsh", "-q", "undefine", web["uuid"])
    assert side.call("started", **web)["result"] is True
    assert side.root_inode(web["uuid"]) == inode


VARIANTS = {
    "pc with the seed on IDE": {"hw_machine_type": "pc", "hw_cdrom_bus": "ide"},
    "virtio-scsi": {"hw_disk_bus": "scsi"},
    "seed on SATA": {"hw_cdrom_bus": "sata"},
    "all on SATA": {"hw_disk_bus": "sata"},
    "all on IDE": {"hw_machine_type": "pc", "hw_disk_bus": "ide"},
    "UEFI": {"hw_firmware_type": "uefi"},
    "secure boot": {"hw_firmware_type": "uefi", "os_secure_boot": "required"},
    "watchdog and VNC": {"hw_watchdog_action": "reset", "hw_video_model": "virtio"},
}


@pytest.mark.parametrize("properties", VARIANTS.values(), ids=list(VARIANTS))
def test_libvirt_takes_and_starts_what_image_properties_make(side, image, properties):
    _web, built = build(side, {**image, "properties": properties})
    assert built.get("result") is True, built


def test_further_disks_are_seen_by_the_guest(lab, side, image):
    build(side, image, name="web-9", flavor={"ephemeral_gb": 1, "swap": 64})
    facts = lab.guest_facts("web-9", timeout=120)
    assert (facts["vcpus"], facts["disk"]) == (1, 1 << 30)
