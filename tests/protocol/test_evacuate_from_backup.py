# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance whose disks a lost host alone had is restored from its newest backup on another one, whoever is killed; the lost host,
once it is back, starts nothing, and what was written there last is set aside."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import histories  # noqa: E402,F401  pylint: disable=unused-import  # puts the cases of the unit tests on the path
from history_host import files_below, read_disk  # noqa: E402
from history_steps import Asked, Player, Step  # noqa: E402
from history_world import World  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import restore  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import is_owner  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import vm_states  # noqa: E402

NAME = "web1"
MOUNTED, KEPT = 8, 5  # dice by which the backup is in a directory of the hosts, and on a backup host
MANY = 1 << 20


class Case:
    """An instance, whose backup is older than what was written last, on a host that is off."""

    def __init__(self, top, monkeypatch, where, on_engine=False, volumes=()):
        self.world = World(top, monkeypatch, 3, [NAME], on_engine)
        self.player, self.where = Player(self.world), where
        self.uuid = self.world.uuid(NAME)
        self.run("create", volumes=volumes)
        (self.lost,) = self.owners()
        self.run("backup")
        for _write in range(3):
            self.world.write()
        self.written = self.newest_on(self.lost)
        self.player.play(Step("switch_off", host=list(self.world.machines.values()).index(self.lost)))

    def asked(self, playbook, **more):
        return Asked(playbook, (NAME,), self.where, **more)

    def run(self, playbook, **more):
        self.player.play(Step("run", (self.asked(playbook, **more),)))

    def evacuate(self, **more):
        self.run("evacuate", lost="off", **more)

    def changes(self):
        """How many changes each call to a host makes in an evacuation that nothing befalls."""
        run, found, fuse = self.player.begun(self.asked("evacuate", lost="off"), {}), [], self.world.fuse
        steps = run.evacuate()
        fuse.left = MANY
        for _call in steps:
            found.append(MANY - fuse.left)
            fuse.left = MANY
        fuse.left = None
        return found

    def record(self, machine):
        return machine.host.store.read(self.uuid)

    def owners(self):
        return [machine for machine in self.world.machines.values() if is_owner(self.record(machine))]

    def running(self):
        return [
            each for each in self.world.machines.values() if any(guest.uuid == self.uuid for guest in each.guests())
        ]

    def newest_on(self, machine):
        return max(counter for name, counter in machine.disks().items() if self.world.of_disk.get(name) == self.uuid)

    def set_aside(self):
        return [
            read_disk(path)[1]
            for path in files_below(str(self.lost.host.pool))
            if "/set-aside/" in path and path.endswith("root.qcow2")
        ]

    def check_evacuated(self):
        assert self.player.told == {}, self.player.told
        assert len(self.running()) == 1
        (there,) = self.running()
        assert there is not self.lost and self.owners() == [
            each for each in self.world.machines.values() if each in (there, self.lost)
        ]
        record = self.record(there)
        assert record.vm_state == vm_states.ACTIVE and record.task_state is None and "shelved" not in record.spec
        assert record.generation[0] > self.record(self.lost).generation[0]
        assert 0 < self.newest_on(there) < self.written, "what the backup has"
        return there

    def check_back(self, there):
        """The lost host is on again."""
        self.player.play(Step("switch_on"))
        assert self.running() == [there]
        self.run("start")
        assert "DuplicateInstance" in str(self.player.told) and self.running() == [there]
        self.run("recover")
        assert self.player.told == {} and self.owners() == self.running() == [there]
        assert self.set_aside() == [self.written], "what was written last"
        self.run("create")
        assert self.player.told == {} and self.owners() == self.running() == [there]


@pytest.mark.parametrize("on_engine", [False, True], ids=["hosts", "engine"])
@pytest.mark.parametrize("where", [MOUNTED, KEPT], ids=["mounted", "backup host"])
def test_it_runs_elsewhere_from_its_backup_and_what_was_written_last_is_set_aside(
    tmp_path, monkeypatch, where, on_engine
):
    case = Case(tmp_path, monkeypatch, where, on_engine)
    case.evacuate()
    case.check_back(case.check_evacuated())


def test_without_a_backup_nothing_is_made(tmp_path, monkeypatch):
    case = Case(tmp_path, monkeypatch, MOUNTED)
    case.where = KEPT  # where there is none
    case.evacuate()
    assert case.player.told[NAME]["code"] == "DisksNotShared" and "has no whole backup of it" in str(case.player.told)
    assert case.running() == [] and case.owners() == [case.lost]


@pytest.mark.parametrize("on_engine", [False, True], ids=["hosts", "engine"])
def test_one_that_could_not_be_restored_is_shelved_without_room_until_the_next_run(tmp_path, monkeypatch, on_engine):
    case = Case(tmp_path, monkeypatch, MOUNTED, on_engine)

    def refused(_target):
        raise restore.RestoreFailed("no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore, "_make", refused)
        case.evacuate()
    assert case.player.told[NAME]["code"] == "RestoreFailed" and case.running() == []
    (there,) = (each for each in case.owners() if each is not case.lost)
    assert case.record(there).vm_state == vm_states.SHELVED and case.record(there).resources == {}
    assert case.set_aside() == [], "what may be the only whole copy"
    case.evacuate()
    case.check_back(case.check_evacuated())


@pytest.mark.follows("evacuate_again")
@pytest.mark.parametrize("on_engine", [False, True], ids=["hosts", "engine"])
def test_one_whose_disks_the_inventory_describes_wrongly_is_deleted_and_evacuated_once_more(
    tmp_path, monkeypatch, on_engine
):
    case = Case(tmp_path, monkeypatch, MOUNTED, on_engine)
    request = case.world.request

    def with_another_disk(name):
        spec, seed = request(name)
        return {**spec, "disks": [{"name": "logs", "size_gb": 1, "bus": "virtio"}]}, seed

    with monkeypatch.context() as wrongly:
        wrongly.setattr(case.world, "request", with_another_disk)
        case.evacuate()
    told = case.player.told[NAME]
    assert told["code"] == "DisksOfBackupDiffer" and "the backup has no disk data-logs" in told["message"]
    said = re.search(
        r"berth.kvm.(\w+) --limit web1, .* berth.kvm.(\w+) as before, with -e berth_disks_of=(\S+)$", told["hint"]
    )
    case.run(said[1])
    assert case.player.told == {} and case.owners() == [case.lost]
    case.run(said[2], lost="off", disks_of=said[3])
    case.check_back(case.check_evacuated())


def test_one_that_is_to_be_stopped_is_restored_and_left_off(tmp_path, monkeypatch):
    case = Case(tmp_path, monkeypatch, MOUNTED)
    case.evacuate(state="stopped")
    assert case.player.told == {} and case.running() == []
    (there,) = (each for each in case.owners() if each is not case.lost)
    assert case.record(there).vm_state == vm_states.STOPPED and case.record(there).task_state is None
    case.run("start")
    case.check_back(case.check_evacuated())


CHANGES = {}


@pytest.fixture(params=[MOUNTED, KEPT], ids=["mounted", "backup host"])
def where(request, tmp_path_factory):
    if request.param not in CHANGES:
        with pytest.MonkeyPatch.context() as patch:
            CHANGES[request.param] = Case(tmp_path_factory.mktemp("counted"), patch, request.param).changes()
    return request.param


@pytest.mark.parametrize("part", range(2))
def test_killed_between_two_changes_the_next_run_ends_it(tmp_path, where, part):
    """Of all changes that an evacuation makes each sixth."""
    kills = [(call, change) for call, changes in enumerate(CHANGES[where], 1) for change in range(changes + 1)]
    assert len(kills) > 60
    for number, killed in enumerate(kills[3 * part :: 6]):
        top = tmp_path / str(number)
        top.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            case = Case(top, patch, where)
            case.evacuate(killed=killed)
            case.evacuate()
            case.check_back(case.check_evacuated())


def test_killed_before_any_of_its_calls_over_an_engine_the_next_run_ends_it(tmp_path):
    """Until another host has the instance, the engine knows whose it was."""

    def case_in(folder, patch):
        (tmp_path / folder).mkdir()
        return Case(tmp_path / folder, patch, MOUNTED, on_engine=True)

    with pytest.MonkeyPatch.context() as patch:
        calls = len(case_in("counted", patch).changes())
    for call in range(1, calls + 1):
        with pytest.MonkeyPatch.context() as patch:
            case = case_in(str(call), patch)
            case.evacuate(killed=(call, 0))
            case.evacuate()
            case.check_back(case.check_evacuated())
