# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, run again and again while the instance is out of sight: there is never a second guest (I1)."""

from __future__ import annotations

import pytest

from playbooks import catalog, homes, left, records, vm


@pytest.fixture
def web(lab, inventory, image):
    """One instance web1: the lab, its inventory file, and the host that owns it."""
    path = inventory({"web1": vm()}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    return lab, path, homes(lab)["web1"]


def create(lab, path, *argv):
    return lab.ansible_playbook("berth.kvm.create", *argv, inventory=[path], check=False)


def test_create_again_and_again_while_its_host_is_silent_makes_no_second_guest(web):
    lab, path, home = web
    lab.cut(home)
    for _time in range(2):
        refused = create(lab, path)
        assert refused.rc and "InstanceUnknown" in refused.output and home in refused.output, refused.output
    lab.heal(home)
    assert records(lab) == [(home, "web1", "OWN")]
    assert set(create(lab, path).changed.values()) == {0}


def test_with_its_state_directory_away_nothing_is_made_or_started_anywhere(web):
    """Not mounted: the guest runs on, and its host knows nothing of it."""
    lab, path, home = web
    lab.sh(home, "mv /var/lib/berth /var/lib/berth.away && mkdir -m 700 /var/lib/berth")
    refused = create(lab, path)
    assert refused.rc and "DomainWithoutRecord" in refused.output and home in refused.output, refused.output
    assert records(lab) == []
    lab.sh(home, "rm -r /var/lib/berth && mv /var/lib/berth.away /var/lib/berth")
    assert set(create(lab, path).changed.values()) == {0}
    assert records(lab) == [(home, "web1", "OWN")]


def test_a_record_that_is_lost_for_good_is_taken_back_from_the_guests_definition(web):
    lab, path, home = web
    lab.sh(home, "rm -r /var/lib/berth/instances/*")
    refused = create(lab, path)
    assert refused.rc and "berth.kvm.restore_record --limit web1" in refused.output, refused.output
    assert lab.ansible_playbook("berth.kvm.restore_record", "--limit", "web1", inventory=[path]).changed["web1"] == 1
    assert records(lab) == [(home, "web1", "OWN")]
    assert set(create(lab, path).changed.values()) == {0}
    lab.ansible_playbook("berth.kvm.delete", "--limit", "web1", inventory=[path])
    assert left(lab) == {}
