# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A delete says by name and size which disks go with their data, in check mode and after it, and what --diff shows is that."""

from __future__ import annotations

import json
import pathlib

import pytest
from volume_case import NEEDS_QEMU_IMG, named

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import given_up, power

pytestmark = NEEDS_QEMU_IMG
GONE = ["root disk 1 GiB", "data disk logs 2 GiB", "volume db 2 GiB"]


@pytest.fixture
def web(house):
    guest = house.guest()
    guest.spec["disks"] = [{"name": "logs", "size_gb": 2, "bus": "virtio"}]
    guest.claim(named(new=True, goes=True), named("kept", slot=1, size_gb=1, new=True))
    return guest


def deleted(web, dry):
    instance = web.instance()
    act = instance.would_remove if dry else instance.absent
    return power.outcome_of(
        instance, {"state": "absent", "mend": False}, dry, act, given_up.by_delete(instance), "absent", False
    )


@pytest.mark.parametrize("dry", [True, False], ids=["--check", "a run"])
def test_a_delete_names_the_disks_and_volumes_that_go_and_no_others(web, dry):
    web.go_on()
    told = deleted(web, dry)
    assert told["changed"] and told["instance"] == {"uuid": web.uuid, "state": "absent", "gives_up": GONE}
    before, after = (json.loads(told["diff"][when]) for when in ("before", "after"))
    assert before["gives_up"] == GONE and after == {"state": "absent"}
    assert "gives_up" not in deleted(web, dry)["instance"] or dry


def test_a_build_that_has_made_nothing_yet_gives_nothing_up(web):
    assert "gives_up" not in deleted(web, dry=False)["instance"]


def test_a_root_disk_that_is_as_large_as_its_image_has_the_size_of_its_file(web):
    web.spec["flavor"]["root_gb"] = 0
    record = web.record
    web.host.store.compare_and_swap(record, record.next(spec={**record.spec, "flavor": web.spec["flavor"]}))
    web.go_on()
    assert "root disk 1 GiB" in deleted(web, dry=True)["instance"]["gives_up"]


def test_files_without_a_record_are_named_by_their_paths(web):
    web.go_on()
    (pathlib.Path(web.host.store.state_dir) / "instances" / web.uuid / "record.json").unlink()
    (domain, path, *_logs) = deleted(web, dry=True)["instance"]["gives_up"]
    assert domain.startswith("domain ") and path.endswith("/instances/" + web.uuid)
