# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which definitions of adopted guests may go to another host, and what of them changes there: only what is of their host."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import adopted, adopted_move, disk_words, request_shape
from ansible_collections.berth.kvm.plugins.module_utils.model.adopted_move import AdoptedNotMovable
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.model.shape import Fault
from ansible_collections.berth.kvm.plugins.module_utils.placement import request

UUID = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"
# As virt-install defines it, and libvirt completes it.
DEFINITION = """<domain type="kvm">
  <name>web1</name><uuid>5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52</uuid><title>Web</title>
  <memory unit="KiB">2097152</memory><currentMemory unit="KiB">2097152</currentMemory><vcpu placement="static">2</vcpu>
  <resource><partition>/machine</partition></resource>
  <os firmware="efi"><type arch="x86_64" machine="pc-q35-7.2">hvm</type>
    <firmware><feature enabled="no" name="secure-boot"/></firmware>
    <loader readonly="yes" type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>
    <nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd">/var/lib/libvirt/qemu/nvram/web1_VARS.fd</nvram><boot dev="hd"/></os>
  <features><acpi/><apic/><vmport state="off"/></features>
  <cpu mode="host-passthrough" check="none" migratable="on"/>
  <clock offset="utc"><timer name="rtc" tickpolicy="catchup"/></clock>
  <on_poweroff>destroy</on_poweroff><pm><suspend-to-mem enabled="no"/></pm>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type="file" device="disk"><driver name="qemu" type="qcow2" discard="unmap"/><source file="/srv/vm/web1.qcow2"/><backingStore/>
      <target dev="vda" bus="virtio"/><serial>WD-1</serial>
      <address type="pci" domain="0x0000" bus="0x04" slot="0x00" function="0x0"/></disk>
    <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/srv/vm/data.img"/><target dev="vdb" bus="virtio"/></disk>
    <disk type="file" device="cdrom"><driver name="qemu" type="raw"/><target dev="sda" bus="sata"/><readonly/></disk>
    <controller type="usb" index="0" model="qemu-xhci" ports="15"/><controller type="pci" index="0" model="pcie-root"/>
    <interface type="network"><mac address="52:54:00:aa:bb:cc"/><source network="default"/><model type="virtio"/></interface>
    <serial type="pty"><log file="/var/log/web1.log" append="on"/><target type="isa-serial" port="0"/></serial>
    <console type="pty"><target type="serial" port="0"/></console>
    <channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <channel type="spicevmc"><target type="virtio" name="com.redhat.spice.0"/></channel>
    <input type="tablet" bus="usb"/><graphics type="spice" autoport="yes"><listen type="address"/></graphics>
    <sound model="ich9"/><audio id="1" type="spice"/><video><model type="virtio"/></video>
    <redirdev bus="usb" type="spicevmc"/><watchdog model="itco" action="reset"/><memballoon model="virtio"/>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
  </devices>
  <seclabel type="dynamic" model="apparmor" relabel="yes"/>
</domain>"""
GIB = 1 << 30
DISKS = [
    {"target": "vda", "path": "/srv/vm/web1.qcow2", "format": "qcow2", "size": 20 * GIB - 1},
    {"target": "vdb", "path": "/srv/vm/data.img", "format": "raw", "size": 5 * GIB},
]
FLAVOR = {"name": "web1-own", "vcpus": 2, "memory_mb": 2048, "root_gb": 20, "extra_specs": {}}


def spec(*changes, definition=DEFINITION, **flavor):
    for old, new in changes:
        assert old in definition, old
        definition = definition.replace(old, new)
    found = {
        "definition": definition, "disks": DISKS, "variables": "/var/lib/libvirt/qemu/nvram/web1_VARS.fd",
    }  # fmt: skip
    return {"uuid": UUID, "name": "web1", "flavor": {**FLAVOR, **flavor}, adopted.KEY: found}


def test_what_virt_install_makes_can_go_to_another_host():
    adopted_move.check("web1", spec())


def test_on_another_host_only_what_is_of_a_host_is_another():
    there = adopted_move.moved_in(spec())
    text = there[adopted.KEY]["definition"]
    paths = [each for each in ("/srv", "/var", "/usr/bin", "VARS", "/machine", "seclabel") if each in text]
    assert paths == [] and "/usr/share/OVMF/OVMF_CODE_4M.fd" in text, "its firmware stays"
    assert [each["path"] for each in there[adopted.KEY]["disks"]] == ["vda.qcow2", "vdb.raw"]
    assert there[adopted.KEY]["variables"] == "nvram.fd"
    old, new = (ElementTree.fromstring(each[adopted.KEY]["definition"]) for each in (spec(), there))
    assert new.findtext("name") == UUID
    gone = ("emulator", "resource", "seclabel", "title", "backingStore")
    stay = [
        [each.tag for each in root.iter() if each.tag not in gone and each.tag != "partition"] for root in (old, new)
    ]
    assert stay[0] == stay[1]
    assert [each.attrib for each in old.iter("address")] == [each.attrib for each in new.iter("address")]
    assert new.findtext("devices/disk/serial") == "WD-1"


def test_to_be_moved_again_changes_nothing_more():
    once = adopted_move.moved_in(spec())
    assert adopted_move.moved_in(once) == once and adopted.has_moved(once) and not adopted.has_moved(spec())
    created = {"uuid": UUID, "name": "web1", "flavor": FLAVOR}
    assert adopted_move.moved_in(created) is created


NO = "</devices>"
BACKDOOR = '<qemu:commandline xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><qemu:arg value="-s"/></qemu:commandline>'


@pytest.mark.parametrize(
    "change, said",
    [
        ((NO, '<hostdev mode="subsystem" type="usb"/>' + NO), "<hostdev>"),
        (
            (NO, '<tpm model="tpm-tis"><backend type="emulator" version="2.0"/></tpm>' + NO),
            "has a TPM, whose state stays",
        ),
        ((NO, '<filesystem type="mount"><source dir="/"/></filesystem>' + NO), "<filesystem>"),
        (("</domain>", BACKDOOR + "</domain>"), "<commandline>"),
        (('<serial type="pty">', '<serial type="file"><source path="/etc/cron.d/x"/>'), "names /etc/cron.d/x"),
        (('<serial type="pty">', '<serial type="tcp">'), "serial of type tcp"),
        (('<channel type="unix">', '<channel type="unix"><source mode="bind" path="/run/x"/>'), "names /run/x"),
        (('<disk type="file" device="cdrom">', '<disk type="block" device="cdrom">'), "disk of type block"),
        (
            ('<target dev="sda"', '<source file="/srv/x.iso"/><target dev="sda"'),
            "virsh change-media %s sda --eject --config" % UUID,
        ),
        (('<target dev="vdb"', '<target dev="vdc"'), "names /srv/vm/data.img"),
        (('type="network"><mac', 'type="direct"><mac'), "interface of type direct"),
        (("/dev/urandom", "/srv/noise"), "names /srv/noise"),
        (('<backend model="random">', '<backend model="egd">'), "random numbers"),
        (('<listen type="address"/>', '<listen type="address" address="192.0.2.1"/>'), "listens on an address"),
        (('placement="static"', 'cpuset="0-3"'), "tied to CPUs"),
        (("</vcpu>", '</vcpu><cputune><emulatorpin cpuset="0"/></cputune>'), "tied to CPUs"),
        (("<nvram ", '<nvram format="qcow2" '), "UEFI variables are qcow2"),
        (("<boot dev", "<kernel>/boot/vmlinuz</kernel><boot dev"), "names /boot/vmlinuz"),
        (("</vcpu>", "</vcpu><launchSecurity type='sev'/>"), "<launchSecurity>"),
    ],
)
def test_what_is_of_its_host_alone_is_refused_by_name(change, said):
    with pytest.raises(AdoptedNotMovable) as refused:
        adopted_move.check("web1", spec(change))
    assert (
        said in refused.value.message and len(refused.value.details["reasons"]) == refused.value.message.count(";") + 1
    )
    with pytest.raises(AdoptedNotMovable):
        adopted_move.moved_in(spec(change))


def test_all_that_is_in_the_way_is_told_at_once():
    with pytest.raises(AdoptedNotMovable, match="(?s)hostdev.*serial of type tcp"):
        adopted_move.check("web1", spec((NO, "<hostdev/>" + NO), ('<serial type="pty">', '<serial type="tcp">')))


@pytest.mark.parametrize(
    "text", ["", "<domain", "<domain/>", DEFINITION.replace(">2</vcpu>", ">x</vcpu>"), "<!DOCTYPE x>" + DEFINITION]
)
def test_what_is_no_definition_is_refused_and_not_read(text):
    for look in (adopted_move.moved_in, lambda each: request.check_adopted(each, {**FLAVOR, "vcpus": 4})):
        with pytest.raises(BerthError):
            look(spec(definition=text))


def test_the_first_disk_grows_with_its_flavor_and_not_by_what_is_rounded_up():
    assert [each["size"] for each in adopted.disks(spec())] == [20 * GIB - 1, 5 * GIB]
    assert [each["size"] for each in adopted.disks(spec(root_gb=30))] == [30 * GIB, 5 * GIB]
    assert disk_words.own(spec(root_gb=30)) == ["vda /srv/vm/web1.qcow2 30 GiB", "vdb /srv/vm/data.img 5 GiB"]


def test_a_move_claims_room_for_all_of_its_disks():
    assert RequestSpec(spec()).local_gb == 25


def test_a_resize_of_what_its_definition_says_only_once_is_possible():
    request.check_adopted(spec(), {**FLAVOR, "name": "big", "vcpus": 4, "memory_mb": 4096, "root_gb": 40})
    request.check_adopted({"flavor": FLAVOR}, {**FLAVOR, "swap": 64})


TOPOLOGY = ('migratable="on"/>', 'migratable="on"><topology sockets="1" dies="1" cores="2" threads="1"/></cpu>')
CELLS = ('migratable="on"/>', 'migratable="on"><numa><cell id="0" cpus="0-1" memory="2097152"/></numa></cpu>')
MOST = ("<memory unit", '<maxMemory slots="4">8388608</maxMemory><memory unit')


@pytest.mark.parametrize(
    "changes, flavor, said",
    [
        ([TOPOLOGY], {"vcpus": 4}, "cpu/topology"),
        ([CELLS], {"vcpus": 4}, "cpu/numa"),
        ([CELLS], {"memory_mb": 4096}, "cpu/numa"),
        ([MOST], {"memory_mb": 4096}, "maxMemory"),
        ([], {"swap": 64}, "no swap"),
        ([], {"ephemeral_gb": 1}, "no ephemeral_gb"),
        ([], {"extra_specs": {"hw:cpu_policy": "dedicated"}}, "hw:cpu_policy"),
    ],
)
def test_a_resize_of_what_its_definition_says_twice_is_refused_by_name(changes, flavor, said):
    with pytest.raises(InvalidInput, match=said):
        request.check_adopted(spec(*changes), {**FLAVOR, "name": "big", **flavor})


def test_a_topology_that_the_new_flavor_fills_and_what_stays_the_same_are_no_obstacle():
    request.check_adopted(spec(TOPOLOGY), {**FLAVOR, "memory_mb": 4096})
    request.check_adopted(spec(CELLS), {**FLAVOR, "root_gb": 40})
    request.check_adopted(spec(extra_specs={"hw:x": "1"}), {**FLAVOR, "vcpus": 4, "extra_specs": {"hw:x": "1"}})


@pytest.mark.parametrize(
    "change",
    [
        {"definition": "x" * (adopted.LONGEST + 1)},
        {"definition": "<domain>{{ x }}</domain>"},
        {"definition": None},
        {"disks": [{**DISKS[0], "format": "vmdk"}]},
        {"disks": [{**DISKS[0], "target": "../vda"}]},
        {"disks": [{**DISKS[0], "size": -1}]},
        {"variables": "/x\ny"},
    ],
)
def test_what_a_host_says_of_it_is_checked(change):
    said = {**spec(), "project_id": "default", "image": adopted.NO_IMAGE}
    assert request_shape.request(said)[adopted.KEY] == said[adopted.KEY]
    with pytest.raises(Fault):
        request_shape.request({**said, adopted.KEY: {**said[adopted.KEY], **change}})
