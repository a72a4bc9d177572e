# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance gets another name on its host, with a libvirt in memory: its uuid, guest and files are what they were."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from adopt_case import Found
from instance_case import Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import (
    InstanceExists,
    InstanceIsLocked,
    InvalidInput,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import own_name
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

STEPS = ["rename record", "rename title", "rename mark"]


def act(web, name, dry=False, killed_at=None, state="renamed"):
    params = {"state": state, "new_name": name, "reason": "", "shutdown_timeout": 0}
    return acts.act(web.instance(killed_at), params, dry)


def names(web):
    """The names in the record and in the definition."""
    record, text = web.record, web.domain.xml
    return {record.name, record.spec["name"], ElementTree.fromstring(text).findtext("title"), domain.mark(text)["name"]}


def test_it_keeps_its_uuid_its_domain_and_its_guest_and_again_changes_nothing(web):
    web.make()
    before, starts = web.record, web.domain.starts
    assert act(web, "web2", dry=True) is True and web.record == before
    assert [act(web, "web2"), act(web, "web2", dry=True), act(web, "web2")] == [True, False, False]
    assert names(web) == {"web2"} and (web.record.uuid, web.domain.starts) == (before.uuid, starts)
    assert ElementTree.fromstring(web.domain.xml).findtext("name") == web.uuid
    assert {**web.record.spec, "name": "web1"} == before.spec
    assert (web.record.history[-1]["event"], web.record.history[-1]["before"]) == ("rename", "web1")


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_each_step_the_next_run_finishes_it(web, step):
    web.make()
    with pytest.raises(Killed):
        act(web, "web2", killed_at=step)
    assert act(web, "web2") is True and names(web) == {"web2"}
    assert act(web, "web2") is False


def test_its_host_tells_the_name_apart_from_one_that_the_uuid_follows_from(web):
    web.make()
    assert own_name(web.record) == {} and "own_name" not in facts._own(web.record, {})
    act(web, "web2")
    assert own_name(web.record) == {"own_name": "web2"} and facts._own(web.record, {})["own_name"] == "web2"
    act(web, "web1")
    assert own_name(web.record) == {}


def test_an_instance_that_is_off_and_one_without_a_domain_are_renamed(web):
    web.make()
    act(web, None, state="stopped")
    assert act(web, "web2") is True and names(web) == {"web2"}
    web.domain.undefineFlags()
    assert act(web, "web3") is True and web.record.name == "web3"


def test_a_running_guest_that_somebody_undefined_is_defined_again_with_its_name(web):
    web.make()
    web.domain.persistent = False
    assert act(web, "web2") is True and names(web) == {"web2"}


def test_a_name_of_another_instance_of_the_host_is_refused(web):
    web.make()
    other = web.record.replace(uuid="6" + web.uuid[1:], name="web2", spec={**web.record.spec, "name": "web2"})
    web.host.store.restore(other)
    for dry in (True, False):
        with pytest.raises(InstanceExists, match="web2"):
            act(web, "web2", dry)
    assert names(web) == {"web1"}


def test_no_name_and_a_locked_or_suspended_instance_are_refused(web):
    web.make()
    with pytest.raises(InvalidInput):
        act(web, "Web_2")
    act(web, None, state="suspended")
    with pytest.raises(InstanceInvalidState):
        act(web, "web2")
    act(web, None, state="resumed")
    act(web, None, state="locked")
    with pytest.raises(InstanceIsLocked):
        act(web, "web2")


def test_an_adopted_guest_keeps_the_title_that_it_was_found_with(prepared, tmp_path):
    guest = Found(prepared, tmp_path)
    guest.adopt()
    before = ElementTree.fromstring(guest.domain.xml).findtext("title")
    assert [act(guest, "web2"), act(guest, "web2")] == [True, False]
    assert guest.record.name == domain.mark(guest.domain.xml)["name"] == "web2"
    assert ElementTree.fromstring(guest.domain.xml).findtext("title") == before
