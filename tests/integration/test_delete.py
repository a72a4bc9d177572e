# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete: what is gone is gone, and what is not known is said (I5, I11)."""

from __future__ import annotations

from playbooks import catalog, homes, left, vm


def test_delete_leaves_nothing_and_again_is_no_change(lab, image, inventory):
    """I5."""
    path = inventory({"a": vm(), "b": vm("two")}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    done = lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
    assert {name: done.changed[name] for name in ("a", "b")} == {"a": 1, "b": 1}
    assert left(lab) == {}
    again = lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
    assert set(again.changed.values()) == {0}


def test_delete_takes_only_what_is_selected(lab, image, inventory):
    """I9; and without a selection nothing at all."""
    path = inventory({"a": vm(), "b": vm()}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    refused = lab.ansible_playbook("berth.kvm.delete", inventory=[path], check=False)
    assert (refused.rc, "SelectionNotExplicit" in refused.stdout) == (2, True)
    lab.ansible_playbook("berth.kvm.delete", "--limit", "a", "--check", inventory=[path])
    assert set(homes(lab)) == {"a", "b"}
    lab.ansible_playbook("berth.kvm.delete", "--limit", "a", inventory=[path])
    assert set(homes(lab)) == {"b"}


def test_instance_that_may_be_on_a_silent_host_is_not_called_deleted(lab, image, inventory):
    """Unreachable is unknown."""
    path = inventory({"a": vm(target_host=lab.host(3))}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    lab.cut(3)
    done = lab.ansible_playbook("berth.kvm.delete", "--limit", "a", inventory=[path], check=False)
    assert (done.rc, "InstanceUnknown" in done.stdout) == (2, True)
