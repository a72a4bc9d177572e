# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a rolling reboot boots, in which order, by what they say themselves; and whether one came back whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from controller import Controller
from held_case import held
from leaving_case import SILENT, UUIDS, up

from ansible_collections.berth.kvm.plugins.module_utils.conductor import rolling
from ansible_collections.berth.kvm.plugins.module_utils.conductor.doctor import Finding
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import plan_moves

ROOT = Path(__file__).parents[4]
NAMES = ["kvm1", "kvm2", "kvm3"]


def there(name, *instances, reason=None, rebooted=False, uptime=90000):
    reply = up(name, *instances)
    document = reply["ansible_facts"]["berth_host"]
    document["metrics"] = [{"name": "uptime", "value": uptime}]
    if reason is not None:
        document["drained"] = {"reason": reason, "by": "ada@ctl", "at": "2026-11-22T11:15:06Z", "rebooted": rebooted}
    return reply


def order(check_mode=False, where=None, **args):
    replies = {name: there(name) for name in NAMES}
    replies.update({name: args.pop(name) for name in NAMES if name in args})
    it = Controller(
        {"kvm_hosts": NAMES, "rack": ["kvm3", "kvm2"], "vms": ["web1"]}, {"web1": {"berth_flavor": "small"}}
    )
    it.register("localhost", __berth_facts={"answers": replies})
    values = {**it.task_vars(), **({"berth_where_hosts": where} if where else {})}
    return it.run("reboot_hosts", {"step": "order", **args}, values, check_mode=check_mode)


def test_all_hosts_are_booted_in_their_order_and_what_leaves_each_is_told(capsys):
    off = held(uuid=instance_uuid("default", "off"), name="off", power_state="shutdown")
    done = order(kvm1=there("kvm1", held(), off))
    assert done["names"] == NAMES and set(done["steps"].values()) == {"reboot"} and done["at_once"] == 1
    said = capsys.readouterr().out
    assert (
        "kvm1 is to be booted; leaves before: web1\n" in said and "kvm2 is to be booted; leaves before: nothing" in said
    )
    assert "-e berth_since=20" in said


def test_a_host_that_was_closed_for_it_is_finished_first_and_not_booted_twice():
    done = order(kvm3=there("kvm3", reason=rolling.REASON, rebooted=True), kvm2=there("kvm2", reason=rolling.REASON))
    assert done["names"] == ["kvm2", "kvm3", "kvm1"]
    assert done["steps"] == {"kvm1": "reboot", "kvm2": "reboot", "kvm3": "return"}


def test_a_host_that_somebody_closed_is_left_alone(capsys):
    assert order(kvm2=there("kvm2", reason="new memory"))["names"] == ["kvm1", "kvm3"]
    assert "kvm2 is closed and left alone: new memory" in capsys.readouterr().out


@pytest.mark.follows("pass_over_booted")
def test_the_time_that_a_run_tells_spares_what_it_has_booted(capsys):
    order()
    since = re.search("berth_since=([^:]*:[^:]*:[^:]*):", capsys.readouterr().out)[1]
    assert fleet_hints.pass_over_booted(since).endswith("booted since")
    assert order(since=since, kvm1=there("kvm1", uptime=0))["names"] == ["kvm2", "kvm3"]


def test_a_host_that_was_booted_since_the_time_given_is_done():
    assert order(since="2h", kvm1=there("kvm1", uptime=7100), kvm2=there("kvm2", uptime=7300))["names"] == [
        "kvm2",
        "kvm3",
    ]
    unknown = there("kvm1")
    unknown["ansible_facts"]["berth_host"]["metrics"] = []
    assert order(since="2h", kvm1=unknown)["steps"]["kvm1"] == "reboot"


@pytest.mark.parametrize(
    "named, names", [("kvm3,kvm1", ["kvm3", "kvm1"]), ("rack", ["kvm2", "kvm3"]), (["kvm2"], ["kvm2"])]
)
def test_hosts_are_named_by_themselves_or_by_a_group(named, names):
    assert sorted(order(names=named)["names"]) == sorted(names)


def test_a_query_selects_hosts():
    assert order(where="uuid=='%s'" % UUIDS["kvm2"])["names"] == ["kvm2"]


def test_a_host_that_does_not_answer_stops_it_before_any_is_booted_if_it_is_meant():
    refused = order(kvm2=SILENT)
    assert refused["error_code"] == "HostUnknown" and "kvm2: UNREACHABLE: no route" in refused["msg"]
    assert order(kvm2=SILENT, names="kvm1")["names"] == ["kvm1"]


@pytest.mark.parametrize(
    "args, field",
    [({"names": "kvm9"}, "berth_kvm_host"), ({"at_once": 0}, "berth_hosts_at_once"), ({"since": "x"}, "berth_since")],
)
def test_what_is_asked_for_has_to_make_sense(args, field):
    assert order(**args)["error"]["field"] == field


def test_a_host_is_not_whole_while_the_doctor_finds_an_error_there():
    found = [Finding("A", "error", "kvm2", "broken", "mend"), Finding("B", "warning", "kvm1", "odd", "look")]
    rolling.check_whole("kvm1", found)
    with pytest.raises(rolling.HostNotWhole, match="kvm2 was booted, but: A: broken") as raised:
        rolling.check_whole("kvm2", found)
    assert raised.value.hint == "mend"


def test_what_leaves_a_host_for_its_boot_is_known_to_come_home():
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/move_of_hosts.yml").read_text("utf-8"))
    told = [
        task["ansible.builtin.add_host"].get(plan_moves.DRAINS) for task in tasks if "ansible.builtin.add_host" in task
    ]
    assert "{{ __berth_host_becomes == 'drained' }}" in told
