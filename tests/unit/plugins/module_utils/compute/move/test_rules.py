# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transfer's own rules: keys, addresses, what the source may offer, the percentage of qemu-img."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, transfer
from ansible_collections.berth.kvm.plugins.module_utils.model import migration as guards
from ansible_collections.berth.kvm.plugins.module_utils.model import move_errors as errors
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def record(**changes):
    flavor = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
    parts = dict(
        uuid=UUID, name="vm", project_id="default", role="OWN", generation=[1, 1], token="t", phase="active",
        vm_state="active",
        spec={"flavor": flavor}, resources={}, op="ab" * 16, migration={"attempt": 1, "old_spec": {"flavor": flavor}},
    )  # fmt: skip
    return Record(**{**parts, **changes})


@pytest.fixture(autouse=True)
def run_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "RUN_DIR", str(tmp_path / "berth" / "moves"))


@pytest.mark.parametrize("key", ["", "ab", "g" * 64, "a" * 63 + "\n", None])
def test_a_key_is_64_hexadecimal_digits(key):
    with pytest.raises(errors.TransferFailed):
        transfer.write_key(UUID, key)


def test_a_key_is_readable_by_its_owner_only(tmp_path):
    transfer.write_key(UUID, "a" * 64)
    path = tmp_path / "berth" / "moves" / UUID / "keys.psk"
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert path.read_text() == "berth:%s\n" % ("a" * 64)


def test_close_leaves_nothing(tmp_path):
    transfer.write_key(UUID, "a" * 64)
    transfer.close(UUID)
    transfer.close(UUID)
    assert not (tmp_path / "berth" / "moves" / UUID).exists()


def test_a_process_of_another_is_not_killed(tmp_path):
    """The pid in a stale file may belong to anybody now."""
    path = tmp_path / "x.pid"
    path.write_text("1")
    transfer.kill(str(path), UUID)


@pytest.mark.parametrize("host", ["a,b=c", "x y", "", "a\nb"])
def test_an_address_with_options_in_it_is_refused(host):
    with pytest.raises(errors.TransferFailed):
        transfer.target_options(UUID, {"name": "root"}, {"host": host, "port": 1})


@pytest.mark.parametrize(
    "offered",
    [
        {"name": "extra", "format": "raw", "size": 1},
        {"name": "root", "format": "vmdk", "size": 1},
        {"name": "root", "format": "qcow2", "size": 0},
        {"name": "root", "format": "qcow2", "size": "1"},
        {"name": "root", "format": "qcow2", "size": 1 << 60},
    ],
)
def test_a_disk_the_instance_does_not_have_is_refused(tmp_path, offered):
    with pytest.raises(errors.MigrationConflict):
        disks.expected(str(tmp_path), record(), [offered])


@pytest.mark.parametrize("key", ["root_gb", "ephemeral_gb", "swap"])
def test_a_disk_never_shrinks(key):
    """R13."""
    with pytest.raises(errors.CannotResizeDisk) as raised:
        guards.check_grow_only({"name": "a", key: 2}, {"name": "b", key: 1})
    assert raised.value.field == key


@pytest.mark.parametrize(
    "first, other, allowed", [("raw", "raw", 1), ("raw", "full", 0), (None, "raw", 0), (None, "full", 1)]
)
def test_the_root_disk_keeps_its_format(first, other, allowed):
    """R13: a resize would otherwise leave the guest with a disk of another name, and empty."""
    flavors = [{"name": "x", "extra_specs": {"berth:root_disk": kind} if kind else {}} for kind in (first, other)]
    with contextlib.nullcontext() if allowed else pytest.raises(errors.CannotResizeDisk, match="qcow2"):
        guards.check_grow_only(*flavors)


REFUSED = {
    "paused": ("resize", dict(vm_state="paused"), "vm_state"),
    "error": ("resize", dict(vm_state="error"), "vm_state"),
    "busy": ("resize", dict(task_state="powering-off"), "task_state"),
    "building": ("resize", dict(phase="building"), "task_state"),
    "live of a stopped one": ("live-migration", dict(vm_state="stopped"), "vm_state"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_move_begins_from_active_or_stopped_only(case):
    """R11, R16: the attribute and the state are named."""
    kind, changes, attribute = REFUSED[case]
    held = record(**changes)
    with pytest.raises(errors.InstanceInvalidState) as raised:
        guards.check_begin(held, kind, held.spec, "running")
    assert raised.value.details["attr"] == attribute


@pytest.mark.parametrize("power", ["shutdown", "paused", "crashed", "suspended", "absent"])
def test_a_live_migration_needs_a_running_guest_and_says_what_it_is_instead(power):
    held = record()
    with pytest.raises(errors.InstanceInvalidState, match="power_state %s" % power):
        guards.check_begin(held, "live-migration", held.spec, power)


@pytest.mark.follows("let_go_on")
@pytest.mark.parametrize("kind", ["resize", "migration", "live-migration"])
@pytest.mark.parametrize("power", ["paused", "suspended"])
def test_a_paused_guest_is_neither_running_nor_off_and_begins_no_move(kind, power):
    """It would not hear that it shall shut down, and be ended with what it has not written."""
    held = record()
    with pytest.raises(errors.InstanceInvalidState, match="berth.kvm.start resumes vm"):
        guards.check_begin(held, kind, held.spec, power)


@pytest.mark.follows("migrate_off")
@pytest.mark.parametrize(
    ("vm_state", "power"), [("stopped", "shutdown"), ("active", "shutdown"), ("active", "crashed")]
)
def test_a_live_migration_of_a_guest_that_is_off_says_how_it_is_moved(vm_state, power):
    """The playbook migrate takes the kind that fits: here the cold one."""
    held = record(vm_state=vm_state)
    with pytest.raises(errors.InstanceInvalidState, match="berth.kvm.migrate --limit vm moves it as it is"):
        guards.check_begin(held, "live-migration", held.spec, power)
    guards.check_begin(held, "migration", held.spec, power)
    guards.check_begin(record(), "live-migration", held.spec, "running")  # as it is after a start


def test_a_guest_that_is_off_is_moved_cold():
    held = record()
    guards.check_begin(held, "migration", held.spec, "shutdown")


def test_pinned_cpus_are_not_resized_in_place():
    with pytest.raises(errors.MigrationPreCheckError):
        guards.check_same_host(UUID, {"numa_topology": {"cells": []}}, {"numa_topology": {"cells": [1]}})
