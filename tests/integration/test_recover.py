# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host loses its power and comes back: who starts its guests, and that it is never two (I1)."""

from __future__ import annotations

import re

from playbooks import catalog, homes, records, vm


def running(lab):
    """Every host's running guests: [host, ...], one entry for each guest."""
    return [row["name"] for row in lab.status()["hosts"] if row["power"] == "up" for _one in lab.domains(row["name"])]


def test_after_a_power_cut_the_controller_starts_what_ran_and_nothing_else(lab, image, inventory):
    path = inventory({"web1": {**vm(), "berth_locked": True}, "web2": vm()}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    lab.ansible_playbook("berth.kvm.stop", "--limit", "web2", inventory=[path])
    host = homes(lab)["web1"]
    lab.crash(host)
    lab.start(host)
    by_hand = lab.sh(host, "virsh start $(virsh -q list --all --uuid | head -n 1)", check=False)
    assert by_hand.rc and "no permit" in by_hand.output and running(lab) == []
    looked = lab.ansible_playbook("berth.kvm.start_after_outage", "--check", inventory=[path])
    assert looked.changed["web1"] == 1 and running(lab) == []
    done = lab.ansible_playbook("berth.kvm.start_after_outage", inventory=[path])
    assert (done.changed["web1"], done.changed.get("web2", 0)) == (1, 0) and running(lab) == [host]
    again = lab.ansible_playbook("berth.kvm.start_after_outage", inventory=[path])
    assert set(again.changed.values()) <= {0} and running(lab) == [host]


def test_a_host_that_comes_back_after_its_instance_was_made_elsewhere_starts_nothing(lab, image, inventory):
    path = inventory({"web1": vm()}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    first = homes(lab)["web1"]
    lab.crash(first)
    lab.ansible_playbook(
        "berth.kvm.create", inventory=[path], extra_vars={"berth_lost_hosts": first, "berth_rebuild_lost": "web1"}
    )
    second = homes(lab)["web1"]
    assert second != first and running(lab) == [second]
    lab.start(first)
    for playbook in ("recover", "start", "create", "recover"):
        lab.ansible_playbook("berth.kvm." + playbook, "-e", "berth_all=true", inventory=[path], check=False)
        assert running(lab) == [second], playbook
    assert sorted(records(lab)) == sorted((host, "web1", "OWN") for host in (first, second))

    def keep_one(*words):
        return lab.ansible_playbook(
            "berth.kvm.keep_one_copy", "--limit", "web1", *words, inventory=[path], extra_vars={"berth_keep_on": second}
        )

    place = re.compile(r"The copy on %s (?:is now|would be) in (/\S+) on that host" % first)
    looked = place.search(keep_one("--check").stdout).group(1)
    assert len(records(lab)) == 2 and running(lab) == [second]
    put = place.search(keep_one().stdout).group(1)
    assert put == looked and homes(lab) == {"web1": second} and running(lab) == [second]
    assert "root.qcow2" in lab.sh(first, "ls " + put).stdout and lab.domains(first, every=True) == []
    for playbook, given in (("keep_one", {"berth_keep_on": second}), ("create", {}), ("recover", {})):
        again = lab.ansible_playbook("berth.kvm." + playbook, "--limit", "web1", inventory=[path], extra_vars=given)
        assert set(again.changed.values()) <= {0} and running(lab) == [second], playbook
    lab.ansible_playbook("berth.kvm.delete", "--limit", "web1", inventory=[path])
    assert lab.sh(first, "ls " + put).stdout
    named = {"berth_set_aside_on": first}
    lab.ansible_playbook("berth.kvm.remove_set_aside", "--limit", "web1", inventory=[path], extra_vars=named)
    assert lab.sh(first, "ls %s; true" % put).stdout == ""
