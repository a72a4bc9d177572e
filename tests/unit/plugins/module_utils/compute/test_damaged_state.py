# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of the state directory that was cut off, emptied or edited by hand is an error that names it: never "nothing there",
never a traceback, and nothing is written over it."""

from __future__ import annotations

import json
import os

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import set_aside
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import (
    counters,
    failed_instances,
    state_directory,
    state_file,
    whereabouts,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

OTHER = instance_uuid("default", "other")
GENERATIONS = {"hosts": {OTHER: "kvm9"}, "known": {OTHER: {OTHER: [1, 1]}}}
FAILED = {"uuid": OTHER, "name": "o", "project_id": "p", "host": "kvm1", "error": {"code": "C", "message": "m"}}
# file -> what reads or writes it
USES = {
    "whereabouts.json": [
        lambda web: whereabouts.recall(web.host.store, [OTHER]),
        lambda web: whereabouts.remember(web.host.store, GENERATIONS),
        lambda web: whereabouts.removed(web.host.store, OTHER, [1, 1]),
        lambda web: whereabouts.epoch(web.host.store, OTHER),
        lambda web: web.instance().absent(),
    ],
    "tombstones.json": [
        lambda web: web.host.store.is_buried("a" * 32),
        lambda web: web.host.store.bury("a" * 32),
    ],
    "failures.json": [
        lambda web: failed_instances.read(web.host.store.state_dir),
        lambda web: failed_instances.note(web.host.store, [FAILED]),
        lambda web: failed_instances.forget(web.host.store, [OTHER]),
    ],
    "generation.json": [lambda web: counters.generation_of("x", True, web.host.store.state_dir)],
    "failed_builds.json": [
        lambda web: counters.count_failed_builds(web.host.store.state_dir),
        lambda web: counters.add_failed_build(web.host.store.state_dir),
        lambda web: counters.forget_failed_builds(web.host.store.state_dir),
    ],
    "set-aside.json": [
        lambda web: set_aside.listed(web.host.store),
        lambda web: set_aside.set_aside(web.instance(), 0),
    ],
    "identity.json": [
        lambda web: state_directory.check(web.host.store),
        lambda web: state_directory.establish(web.host.store),
    ],
}
NONSENSE = {
    "emptied": b"",
    "cut off": b'{"',
    "null": b"null",
    "a number": b"7",
    "a list of numbers": b"[1]",
    "an object of nonsense": b'{"a": {"b": [1]}}',
    "an object of null": b'{"%s": null}' % OTHER.encode(),
    "not text": b"\xff\xfe",
    "deep": b"[" * 99999,
}


@pytest.fixture
def web(prepared, wanted):
    case = Case(prepared, wanted())
    state_directory.establish(prepared.store)
    case.make()
    return case


def put(path, data):
    with open(path, "wb") as stream:
        stream.write(data)
    os.chmod(path, 0o600)


@pytest.mark.follows("restore_or_move_away")
@pytest.mark.parametrize("name", USES)
def test_a_damaged_file_is_an_error_that_names_it_and_is_left_as_it_is(web, name):
    path = os.path.join(web.host.store.state_dir, name)
    for what, data in NONSENSE.items():
        for use in USES[name]:
            put(path, data)
            with pytest.raises(BerthError, match=name.partition(".")[0]) as refused:
                use(web)
                pytest.fail("%s of %s: nothing was said" % (what, name))
            assert refused.value.hint, what
            with open(path, "rb") as stream:
                assert stream.read() == data, what
    if "move the file" in refused.value.hint:
        os.rename(path, path + ".away")
        for use in USES[name]:
            use(web)


def test_an_emptied_copy_of_the_identity_is_not_that_of_a_host_that_was_never_prepared(web):
    put(web.host.store.identity_copy, b"")
    with pytest.raises(state_directory.StateDirectoryChanged, match="damaged"):
        state_directory.check(web.host.store)


@pytest.mark.parametrize(
    "read, value",
    [(state_file.text, 1), (state_file.text, None), (state_file.list_of, {"a": 1}), (state_file.count, True),
     (state_file.count, "1"), (state_file.count, -1), (state_file.count, float("nan")), (state_file.whole, 1.0)],
)  # fmt: skip
def test_a_value_of_another_kind_than_was_written_is_damage(read, value):
    with pytest.raises(state_file.StateDamaged, match="identity is damaged"):
        more = (str,) if read is state_file.list_of else ()
        state_file.decode(json.dumps(value).encode(), "identity", lambda found: read(found, *more), None)
