# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live migration whose source loses its libvirtd when all is copied and the last step is on its way (I1, I3, I4)."""

from __future__ import annotations

import json
import time

import pytest
from test_migrate_refused_or_broken_off import begun, other_host
from test_resize import cases, facts, mover  # noqa: F401  pylint: disable=unused-import

from playbooks import homes, records

SIGNAL = "kill -%s $(cat /run/libvirtd.pid)"
PROGRESS = "cat /run/berth/moves/*/progress.json"


def until(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "waited for 60 s"
        time.sleep(0.2)


def states(case, host):
    """What libvirt calls the states of the guests there."""
    return case.lab.sh(host, "virsh -q list --all | awk '{print $3}'").stdout.split()


@pytest.mark.slow
def test_a_source_that_dies_as_finish_is_on_its_way_loses_neither_the_guest_nor_later_migrations(mover):  # noqa: F811
    """The destination's libvirtd is held so that Finish waits for it; then that of the source is killed."""
    case, source = mover
    lab, target, before = case.lab, other_host(case, source), facts(case, source)
    process = begun(case, source, target, bandwidth=30)
    until(lambda: json.loads(lab.sh(source, PROGRESS).stdout)["percent"] > 60)
    lab.sh(target, SIGNAL % "STOP")
    try:
        until(lambda: states(case, source) == ["paused"])
        time.sleep(1)
        lab.kill_libvirtd(source)
    finally:
        lab.sh(target, SIGNAL % "CONT")
    output = process.communicate(timeout=120)[0]
    lab.restart_libvirtd(source)
    assert process.returncode, output
    assert states(case, source) == ["paused"], "the case did not come about"
    assert "running" not in states(case, target)
    again = case.play("live_migrate", {"berth_target_host": target}).output
    assert records(lab) == [(target, cases.NAME, "OWN")], again
    assert (case.look(source)["files"], states(case, source), states(case, target)) == ([], [], ["running"])
    after = facts(case, target, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])
    case.play("live_migrate", {"berth_target_host": source})
    assert homes(lab) == {cases.NAME: source} and states(case, source) == ["running"]
