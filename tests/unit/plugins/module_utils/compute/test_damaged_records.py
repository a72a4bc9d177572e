# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that somebody edited to nonsense is an error that names it, or does no harm: never a traceback."""

from __future__ import annotations

import itertools
import json
import os
from xml.etree import ElementTree

import pytest
from instance_case import Case
from plain_data import changed

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import given_up, hardware, mend, summary
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document, reply_shapes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid
from ansible_collections.berth.kvm.plugins.module_utils.model.shape import Fault
from ansible_collections.berth.kvm.plugins.modules import rescan

NONSENSE = [None, "x", -1, 1.5, True, [], [None], {}, {"a": 1}]


def places(value, path=()):
    """Every path into a record."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for at in range(min(1, len(value))):
            yield from places(value[at], (*path, at))


def with_all_parts(record):
    """With those too that this instance has not."""
    zones = {"availability_zone": "a", "host_zone": "a", "access_ip_v4": "192.0.2.1", "access_ip_v6": "2001:db8::1"}
    resources = dict(record["resources"], resources={"VCPU": 1, "MEM_ENCRYPTION_CONTEXT": 1})
    return dict(record, spec=dict(record["spec"], **zones), resources=resources)


USES = [
    lambda web: facts._encrypted_guests([], [web.record]),
    lambda web: summary.describe(web.record, "running"),
    lambda web: facts._own(web.record, {}),
    lambda web: web.instance().would_start("t"),
    lambda web: mend.mend(web.instance(), dry=True),
    lambda web: hardware.place(ElementTree.fromstring(web.domain.xml), web.record.spec),
    lambda web: web.instance().would_stop(),
    lambda web: web.instance().would_remove(),
    lambda web: given_up.by_delete(web.instance()),
]


@pytest.fixture
def web(prepared, wanted):
    prepared.connection.complete_as("pc-q35-7.2", 3)
    case = Case(prepared, wanted())
    case.make()
    return case


def test_nonsense_in_any_part_is_a_typed_error_or_does_no_harm(web):
    path = os.path.join(web.host.store.state_dir, "instances", web.uuid, "record.json")
    good, untyped = with_all_parts(web.record.to_dict()), []
    for place, value in itertools.product(places(good), NONSENSE):
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(changed(good, place, value), stream)
        for use in USES:
            try:
                use(web)
            except BerthError:
                continue
            except Exception as error:  # pylint: disable=broad-exception-caught
                untyped.append((place, value, repr(error)))
    assert not untyped


def told(record):
    """What the controller gets of a record, through its checks."""
    host_document._INSTANCE(facts._own(record, {}))
    reply_shapes._SHOWN({**summary.describe(record, "running"), "token": record.token})
    scan = {"host_uuid": record.uuid, "instances": [rescan.summary(record)], "notes": {}, "volumes": []}
    reply_shapes.REPLIES["rescan"](scan)
    result = {"uuid": record.uuid, "name": record.name, "claimed": True, "token": "t", "error": None}
    claimed = {"results": [{**result, "allocation": record.resources}], "withdrawn": []}
    reply_shapes.REPLIES["claim"](claimed)


def test_the_host_refuses_itself_what_the_controller_would_not_take_from_it(web):
    """Otherwise nobody learns which record it is, nor how to get it back: the controller names a field of a reply."""
    path = os.path.join(web.host.store.state_dir, "instances", web.uuid, "record.json")
    vgpu = {"parent": "0000:84:00.0", "type": "nvidia-35", "uuid": web.uuid}
    good, refused = with_all_parts(web.record.to_dict()), []
    good["resources"].update(vgpus=[vgpu], pci_devices=[], numa_topology=None)
    for place, value in itertools.product(places(good), NONSENSE):
        if (place, value) == (("spec", "flavor"), {"a": 1}):
            continue  # the one edit that is left to the controller
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(changed(good, place, value), stream)
        try:
            told(web.record)
        except BerthError:
            continue
        except Fault as fault:
            refused.append((place, value, fault.field()))
    assert not refused


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
@pytest.mark.parametrize("part", ["power_state", "of_a_later_version"])
def test_a_number_that_could_not_be_written_again_is_a_typed_error(web, number, part):
    path = os.path.join(web.host.store.state_dir, "instances", web.uuid, "record.json")
    text = json.dumps({**web.record.to_dict(), part: "NUMBER"}).replace('"NUMBER"', number)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    with pytest.raises(RecordInvalid, match="damaged: %s is no number" % number):
        web.instance().stopped(1)
