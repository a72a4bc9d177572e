# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migrations that do not begin, are given up, or lose their controller (R30)."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from test_resize import cases, facts, mover  # noqa: F401  pylint: disable=unused-import

from playbooks import records


def other_host(case, source):
    return next(host for host in case.lab.hosts if host != source)


def test_all_that_speaks_against_a_live_migration_is_said_at_once_and_nothing_is_changed(mover):  # noqa: F811
    """R30, I11: no certificate for QEMU on either side. The guest goes on, the other host holds nothing."""
    case, source = mover
    target = other_host(case, source)
    for host in (source, target):
        case.lab.sh(host, "mv /etc/pki/qemu /etc/pki/qemu.away")
    try:
        refused = case.play("live_migrate", {"berth_target_host": target}, check=False)
    finally:
        for host in (source, target):
            case.lab.sh(host, "mv /etc/pki/qemu.away /etc/pki/qemu")
    assert refused.rc and "MigrationPreCheckError" in refused.output, refused.output
    assert "no TLS on the source: no certificates" in refused.output
    assert "no TLS on the destination: no certificates" in refused.output
    assert records(case.lab) == [(source, cases.NAME, "OWN")]
    assert len(case.look(source)["running"]) == 1 and case.look(target)["files"] == []


def somebody_waits(case, host):
    """Whether a module goes on in the background there."""
    return bool(case.lab.sh(host, "pgrep -f '^/usr/bin/python3'", check=False).stdout)


def check_nobody_waits(case):
    """I5: who waited has seen by now that there is nothing to wait for."""
    until = time.monotonic() + 10
    while any(somebody_waits(case, host) for host in case.lab.hosts):
        assert time.monotonic() < until
        time.sleep(0.5)


def begun(case, source, target, bandwidth, **more):
    """A live migration that is on its way and slow, started by a controller of its own."""
    case.lab.sh(source, "rm -rf /run/berth/moves")
    process = case.lab.start_playbook(
        "berth.kvm.live_migrate",
        "--limit",
        cases.NAME,
        inventory=[case.path],
        extra_vars={"berth_target_host": target, "berth_bandwidth": bandwidth, **more},
    )
    until = time.monotonic() + 180
    while time.monotonic() < until:
        text = case.lab.sh(source, "cat /run/berth/moves/*/progress.json 2>/dev/null", check=False).stdout
        if '"migrating"' in text and json.loads(text)["bytes"]:
            return process
        time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError(process.communicate()[0])


@pytest.mark.slow
def test_a_running_live_migration_is_given_up_by_revert_and_taken_up_when_its_controller_dies(mover):  # noqa: F811
    """R30: given up it leaves the guest running where it is; a run after the controller's end follows the same job."""
    case, source = mover
    before, target = facts(case, source), other_host(case, source)
    process = begun(case, source, target, bandwidth=1)
    assert somebody_waits(case, target)
    case.play("revert_resize")
    process.communicate(timeout=120)
    assert process.returncode
    assert records(case.lab) == [(source, cases.NAME, "OWN")] and case.look(target)["files"] == []
    assert len(case.look(source)["running"]) == 1
    check_nobody_waits(case)

    process = begun(case, source, target, bandwidth=30)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    case.play("live_migrate", {"berth_target_host": target})
    assert records(case.lab) == [(target, cases.NAME, "OWN")] and case.look(source)["files"] == []
    check_nobody_waits(case)
    after = facts(case, target, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])


def test_force_complete_stops_a_guest_that_takes_too_long_until_it_has_arrived(mover):  # noqa: F811
    """R30: the time limit counts from the end of the disks' copy. At its end the guest is stopped, which is told, and the
    rest is copied without the limit on the bandwidth."""
    case, source = mover
    before, target = facts(case, source), other_host(case, source)
    given = {"berth_migration_timeout": 1, "berth_migration_timeout_action": "force_complete"}
    process = begun(case, source, target, bandwidth=16, **given)
    until = time.monotonic() + 200
    while "paused" not in case.lab.sh(source, "virsh -q list", check=False).stdout and time.monotonic() < until:
        time.sleep(0.2)
    stopped = time.monotonic()
    output = process.communicate(timeout=180)[0]
    assert process.returncode == 0, output
    assert "the time limit was over: the guest of" in output, output
    assert time.monotonic() - stopped < 20, "the limit on the bandwidth was kept"
    assert records(case.lab) == [(target, cases.NAME, "OWN")] and case.look(source)["files"] == []
    check_nobody_waits(case)
    after = facts(case, target, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])


def fill(case, host, free_mb):
    """Let a file of somebody else leave so many MiB where the guests' disks are."""
    case.lab.sh(host, "rm -f /var/lib/libvirt/others; sync")
    avail = "$(df --output=avail -B1 /var/lib/libvirt | tail -1)"
    case.lab.sh(host, "fallocate -l $((%s - (%d << 20))) /var/lib/libvirt/others" % (avail, free_mb))


def test_a_cold_migration_to_a_host_without_free_bytes_is_refused_before_the_guest_stops(mover):  # noqa: F811
    """Placement leaves out a pool that is full; what does not fit is refused by the host's claim."""
    case, source = mover
    before, target = facts(case, source), other_host(case, source)
    try:
        fill(case, target, 1)
        full = case.play("cold_migrate", {"berth_target_host": target}, check=False)
        fill(case, target, 17)
        refused = case.play("cold_migrate", {"berth_target_host": target}, check=False)
    finally:
        case.lab.sh(target, "rm -f /var/lib/libvirt/others")
    assert full.rc and "free in its storage pool berth, an instance needs 16 at once" in full.output, full.output
    assert refused.rc and "MiB free for it below" in refused.output, refused.output
    assert records(case.lab) == [(source, cases.NAME, "OWN")] and case.look(target)["files"] == []
    after = facts(case, source, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])
    case.play("cold_migrate", {"berth_target_host": target})
    case.play("confirm_resize")
    shown = case.play("events", {"berth_since": "2h"}).output
    rows = [line.split() for line in shown.splitlines() if " %s " % cases.NAME in line]
    assert ["build", source] in [row[2:4] for row in rows] and ["confirmed", target] in [row[2:4] for row in rows], (
        shown
    )


@pytest.mark.slow
def test_a_destination_that_loses_its_power_while_disks_are_copied_is_not_waited_for_as_long_as_tcp_does(mover):  # noqa: F811
    case, source = mover
    target = other_host(case, source)
    process = begun(case, source, target, 1)
    case.lab.crash(target)
    output = process.communicate(timeout=150)[0]
    assert process.returncode == 2 and "MigrationError" in output, output
    assert facts(case, source)["boots"] == 1 and records(case.lab)[0][0] == source
    case.lab.start(target)
    case.play("live_migrate", {"berth_target_host": target})
    assert facts(case, target)["boots"] == 1
