# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest's UEFI variables never meet a firmware that keeps them in another size or format (move, start, reboot)."""

from __future__ import annotations

import pytest
from firmware_case import FOUR_MIB, PLAIN, TWO_MIB, Firmware, qcow2, variables

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import GuestNotSupported
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import nvram, power
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import firmware
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, moving_host
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, reply_shapes
from ansible_collections.berth.kvm.plugins.module_utils.model.guest_settings import KEY, GuestNeeds

HAS = "raw-%d-authenticated" % FOUR_MIB
SIGNED = ("secure-boot", "enrolled-keys", "requires-smm")


@pytest.fixture
def builds(tmp_path, monkeypatch):
    (tmp_path / "firmware").mkdir()
    return Firmware(tmp_path / "firmware", monkeypatch)


@pytest.fixture
def efi(web, builds):
    """web1, which was started once by a firmware of 4 MiB."""
    builds.add()
    web.host.connection.complete_as("pc-q35-7.2", 3)
    web.make()
    web.variables = web.root.parent / nvram.FILE
    web.variables.write_bytes(variables())
    return web


@pytest.mark.parametrize(
    "content, form, told",
    [
        (variables(), "raw", HAS),
        (variables(TWO_MIB), "raw", "raw-%d-authenticated" % TWO_MIB),
        (variables(store=PLAIN), "raw", "raw-%d-plain" % FOUR_MIB),
        (variables(store=None), "raw", "raw-%d-blank" % FOUR_MIB),
        (b"", "raw", "raw-0-blank"),
        (qcow2(), "qcow2", "qcow2-%d" % FOUR_MIB),
        (qcow2(), "raw", "raw-4096-blank"),
    ],
)
def test_a_host_tells_in_which_form_its_firmware_keeps_variables(builds, content, form, told):
    builds.add(content=content, form=form)
    assert [one["variables"] for one in firmware.offered("x86_64")] == [told]


def test_descriptors_count_in_the_order_of_libvirt_and_those_of_the_administrator_first(builds):
    builds.add("60-a")
    builds.add("50-b", variables(TWO_MIB))
    builds.add("60-a", variables(store=PLAIN), etc=True)
    builds.add("40-hidden")
    (builds.directories[1] / "40-hidden.json").write_text("")
    builds.add("30-signed", features=SIGNED)
    builds.add("31-signatures-without-keys", features=SIGNED[:1])
    (builds.directories[0] / "20-nonsense.json").write_text("[")
    (builds.directories[0] / "21-nonsense.json").write_text('{"mapping": [], "features": []}')
    told = [(one["secure_boot"], one["variables"]) for one in firmware.offered("x86_64")]
    sizes = ["raw-%d-authenticated" % TWO_MIB, "raw-%d-plain" % FOUR_MIB]
    assert told == [(True, HAS), *((False, size) for size in sizes)] and firmware.offered("aarch64") == []


def test_the_first_start_pins_the_form_in_the_record(web, builds, monkeypatch):
    builds.add()
    monkeypatch.setattr(nvram, "form", lambda path, declared=None: HAS)
    web.host.connection.complete_as("pc-q35-7.2", 3)
    web.make()
    assert web.record.spec[KEY]["variables"] == HAS
    assert GuestNeeds.of(web.record.spec).variables == HAS


OTHERS = {
    "another size": dict(content=variables(TWO_MIB)),
    "another store": dict(content=variables(store=PLAIN)),
    "another format": dict(content=qcow2(), form="qcow2"),
    "signed only": dict(features=SIGNED),
    "another machine": dict(machines=("pc-i440fx-*",)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("action", ["start", "reboot"])
@pytest.mark.follows("bring_firmware")
def test_an_upgraded_host_does_not_start_a_guest_with_another_firmware(efi, builds, other, action):
    builds.add(**other)
    if action == "start":
        efi.instance().stopped(0)
    before = efi.variables.read_bytes(), efi.state()
    with pytest.raises(GuestNotSupported) as refused:
        efi.instance().started() if action == "start" else power.reboot(efi.instance(), True, 0)
    assert (efi.variables.read_bytes(), efi.state()) == before
    assert refused.value.hint == host_hints.bring_firmware("kvm1", HAS)
    builds.add("10-berth", etc=True)  # as the hint says
    efi.instance().started()
    assert efi.state()[3]


@pytest.mark.parametrize("content", [variables(), variables(store=None)], ids=["update", "not formatted"])
def test_another_build_with_the_same_form_starts_it(efi, builds, content):
    efi.instance().stopped(0)
    builds.add("60-edk2", content)
    efi.instance().started()
    assert efi.state()[3]


def test_a_guest_without_variables_and_a_host_without_descriptors_are_not_refused(efi, builds):
    efi.instance().stopped(0)
    (builds.directories[0] / "60-edk2.json").unlink()
    efi.instance().started()
    efi.instance().stopped(0)
    efi.variables.unlink()
    builds.add(content=variables(TWO_MIB))
    efi.instance().started()


def told_by_source(efi, effects):
    """The manifest of a source, as its controller passes it on."""
    [entry] = [one for one in effects.disks(efi.record) if one["name"] == "nvram"]
    reply_shapes._DISK(entry)
    return [entry]


@pytest.mark.parametrize("kind", ["migration", "live-migration"])
def test_no_move_comes_to_a_host_with_another_firmware(efi, builds, kind, monkeypatch):
    """Before anything is stopped: the source tells the form of the variables, also where the record does not."""
    monkeypatch.setattr(disks, "virtual_size", lambda path, form: 1)
    monkeypatch.setattr(moving_host.transfer, "allocated", lambda entry: 1)
    effects = moving_host.MovingHost(efi.host).effects
    manifest = told_by_source(efi, effects)
    monkeypatch.setattr(moving_host.network, "check", lambda *_arguments: None)
    monkeypatch.setattr(moving_host.storage, "is_one", lambda *_arguments: False)
    monkeypatch.setattr(moving_host.storage, "check_no_files", lambda *_arguments: None)
    record = efi.record.replace(migration={"type": kind}, op="op")
    assert effects.check_destination(record, manifest) is False
    builds.add(content=variables(TWO_MIB))
    with pytest.raises(GuestNotSupported, match="web1 would lose its UEFI variables on kvm1"):
        effects.check_destination(record, manifest)


def test_a_guest_is_not_stopped_for_a_resize_or_revert_where_it_could_not_start_again(efi, builds):
    effects = moving_host.MovingHost(efi.host).effects
    effects.check_networks(efi.record, "hint")
    builds.add(content=variables(TWO_MIB))
    with pytest.raises(GuestNotSupported):
        effects.check_networks(efi.record, "hint")
