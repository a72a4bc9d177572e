# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cold and live migration of local disks on the lab (R30)."""

from __future__ import annotations

import re

from test_resize import cases, facts, mover  # noqa: F401  pylint: disable=unused-import
from wire import Wire

from playbooks import homes, records


def test_live_migration_keeps_the_guest_running_and_nothing_readable_is_on_the_wire(mover):  # noqa: F811
    case, source = mover
    before = facts(case, source)
    with Wire(case.lab, before["nonce"]) as wire:  # a secret in the guest's memory and on its disk
        output = case.play("live_migrate").output
    assert "End the move on the destination" not in output, "the hosts did not end it between them"
    away = re.search(r"guest was away for (\d[\d.ms]*)", " ".join(output.split()))
    assert away and away[1] != "0ms", output[-2000:]
    assert wire.bytes > 10 << 20 and not wire.found, "%d packets showed it" % wire.found
    destination = homes(case.lab)[cases.NAME]
    assert destination != source
    assert records(case.lab) == [(destination, cases.NAME, "OWN")]
    assert case.look(source)["files"] == []
    after = facts(case, destination, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])
    assert after["up"] > before["up"]


def test_cold_migration_and_back(mover):  # noqa: F811
    case, source = mover
    case.play("cold_migrate")
    destination = homes(case.lab)[cases.NAME]
    assert destination != source
    assert facts(case, destination, lambda said: said["boots"] == 2)["vcpus"] == 1
    case.play("revert_resize")
    assert homes(case.lab) == {cases.NAME: source}
