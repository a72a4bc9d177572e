# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy needs free bytes on the destination, which is seen before the guest stops."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from move_side import SPECS

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host, storage
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationPreCheckError

MIB = 1 << 20
WEB, DB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b"
ROOT = {"name": "root", "format": "qcow2", "size": 1 << 33}


def record(uuid=WEB, kind="resize", **migration):
    return SimpleNamespace(
        uuid=uuid, spec=SPECS["new"], role="IN", migration={"type": kind, "shared": False, **migration}
    )


@pytest.fixture
def check(monkeypatch, tmp_path):
    """check(free MiB, manifest, others' records): as a host with so much free would."""
    (tmp_path / "instances").mkdir()
    others = []

    def run(free, manifest, of=None):
        store = SimpleNamespace(records=lambda: others)
        host = SimpleNamespace(identity={"name": "kvm2"}, store=store, connection=None)
        monkeypatch.setattr(storage.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=free, f_frsize=MIB))
        effects = moving_host.Effects(host)
        monkeypatch.setattr(effects, "pool_path", lambda _record: str(tmp_path))
        effects.check_room(of or record(), manifest)

    run.others, run.pool = others, tmp_path
    return run


def test_disks_that_do_not_fit_are_refused_with_the_numbers_and_what_to_do(check):
    with pytest.raises(
        MigrationPreCheckError, match="kvm2 has 99 MiB free for it below .*, its disks take 100 MiB"
    ) as told:
        check(99, [{**ROOT, "used": 100 * MIB}])
    assert told.value.retryable and told.value.hint == host_hints.make_room_in_pool(str(check.pool))


def test_thin_disks_need_what_they_take_up_and_not_their_size(check):
    check(100, [{**ROOT, "used": 100 * MIB}])


def test_what_a_source_of_an_older_version_does_not_tell_is_not_refused(check):
    check(0, [ROOT])


def test_copies_that_are_on_their_way_here_count_by_what_they_still_lack(check):
    check.others.append(record(DB, arriving=60 * MIB))
    with pytest.raises(MigrationPreCheckError, match="kvm2 has 90 MiB free"):
        check(150, [{**ROOT, "used": 100 * MIB}])
    directory = check.pool / "instances" / DB
    directory.mkdir()
    (directory / "root.qcow2.incoming").write_bytes(b"x" * 50 * MIB)
    check(150, [{**ROOT, "used": 100 * MIB}])


def test_what_an_earlier_attempt_has_copied_makes_room(check):
    directory = check.pool / "instances" / WEB
    directory.mkdir()
    (directory / "root.qcow2.incoming").write_bytes(b"x" * 50 * MIB)
    check(60, [{**ROOT, "used": 100 * MIB}])


@pytest.mark.parametrize("of", [record(kind="live-migration"), record(shared=True)], ids=["live", "shared"])
def test_a_live_migration_tells_it_with_all_else_and_shared_storage_takes_nothing(check, of):
    check(0, [{**ROOT, "used": 100 * MIB}], of)
