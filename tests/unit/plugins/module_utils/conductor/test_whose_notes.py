# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""If what hosts remember of an instance stops its owner, the message says which hosts: one of them may lie."""

from __future__ import annotations

import functools

import pytest
from fleet_case import WEB

from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, locate


def remembers(fleet, liars, **said):
    for liar in liars:
        host, told = fleet.hosts[liar], {"known": None, "planned": [], "after": 0, "gone": None, **said}
        host.facts = functools.partial(lying, host.facts, told)


def lying(facts, told, about=(WEB,)):
    return {**facts(about), "notes": {WEB: told}}


@pytest.mark.parametrize("liars, named", [(["h3"], "h3"), (["h2", "h3"], "h2, h3")])
@pytest.mark.parametrize("lost", [(), ("h9",)], ids=["", "lost"])
def test_who_remembers_a_later_owner_is_named(fleet, liars, named, lost):
    """So that it is known where to look if that is a lie."""
    assert fleet.run() is None
    host = {"host": "h9", "host_uuid": "id-h9"} if lost else {"host": "h2", "host_uuid": "id-h2"}
    remembers(fleet, liars, known={**host, "generation": [7, 2]})
    with pytest.raises(errors.RecordOutdated, match="7.2.*, by the notes of %s" % named):
        locate.locate_to_run(fleet.read(), "web1", WEB, lost)


def test_who_remembers_that_a_run_may_have_made_it_anew_is_named(fleet):
    assert fleet.run() is None
    remembers(fleet, ["h3"], planned=[{"host": "h9", "host_uuid": "id-h9", "run": "r9"}], after=1)
    with pytest.raises(errors.InstanceUnknown, match="made it anew on h9.*, by the notes of h3"):
        locate.locate(fleet.read(), "web1", WEB)
