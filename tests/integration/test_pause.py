# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that is paused, moved and unpaused, suspended and resumed goes on with its memory (I3, I8)."""

from __future__ import annotations

from test_migrate_finish import states
from test_migrate_refused_or_broken_off import other_host
from test_resize import cases, facts, mover  # noqa: F401  pylint: disable=unused-import

from playbooks import homes, records


def goes_on(case, host, before):
    """The guest writes again, and was not started since."""
    after = facts(case, host, lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])
    return after


def vm_state(case, host):
    return next(each["vm_state"] for each in case.lab.module(host, "berth.kvm.instance_info")["instances"])


def test_a_paused_guest_moves_paused_and_goes_on_where_it_is_unpaused(mover):  # noqa: F811
    case, source = mover
    target, before = other_host(case, source), facts(case, source)
    assert case.play("pause").changed["mover"] == 1 and case.play("pause").changed.get("mover", 0) == 0
    assert states(case, source) == ["paused"] and vm_state(case, source) == "paused"
    for refused in ("cold_migrate", "stop", "start", "suspend"):
        said = case.play(refused, {"berth_target_host": target} if refused == "cold_migrate" else {}, check=False)
        assert said.rc and "berth.kvm.unpause --limit mover" in " ".join(said.output.split()), said.output
    moved = case.play("live_migrate", {"berth_target_host": target}).output
    assert homes(case.lab) == {"mover": target}, moved
    assert (states(case, source), states(case, target)) == ([], ["paused"]) and vm_state(case, target) == "paused"
    assert len(records(case.lab)) == 1
    case.play("unpause")
    goes_on(case, target, before)
    assert vm_state(case, target) == "active"


def test_a_suspended_guest_goes_on_with_its_memory_also_after_libvirt_was_restarted(mover):  # noqa: F811
    case, source = mover
    before = facts(case, source)
    assert case.play("suspend").changed["mover"] == 1 and case.play("suspend").changed.get("mover", 0) == 0
    assert vm_state(case, source) == "suspended" and "running" not in states(case, source)
    by_hand = case.lab.sh(source, "virsh start $(virsh -q list --all --name)", check=False)
    assert "no permit" in by_hand.stdout + by_hand.stderr
    said = case.play("cold_migrate", {"berth_target_host": other_host(case, source)}, check=False).output
    assert "berth.kvm.resume --limit mover" in " ".join(said.split())
    case.lab.restart_libvirtd(source)
    assert case.play("start_after_outage").changed.get("mover", 0) == 0
    assert case.play("resume").changed["mover"] == 1 and case.play("resume").changed.get("mover", 0) == 0
    goes_on(case, source, before)


def test_a_memory_file_that_is_cut_off_is_not_taken_for_a_guests_memory(mover):  # noqa: F811
    case, source = mover
    case.play("suspend")
    case.lab.sh(
        source,
        "cd /var/lib/libvirt/qemu/save; for f in *.save; do printf LibvirtQemudPart | dd of=$f conv=notrunc; done",
    )
    refused = case.play("resume", check=False)
    assert refused.rc and "SavedMemoryGone" in refused.output, refused.output
    assert case.play("reboot", {"berth_reboot": "hard"}).changed["mover"] == 1
    assert states(case, source) == ["running"] and vm_state(case, source) == "active"
