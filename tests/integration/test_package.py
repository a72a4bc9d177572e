# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is released: the tarball, installed where the checkout is not in reach, does the demo's work on real hosts."""

from __future__ import annotations

import pytest
from client import REPOSITORY, run

from playbooks import catalog, homes, left, vm


@pytest.fixture(scope="module")
def installed():
    """The environment in which only the installed tarball is the collection."""
    run([REPOSITORY / "tests" / "package.sh"], check=True)
    return {"ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "package" / "installed")}


def test_the_installed_tarball_prepares_creates_and_deletes(installed, lab, image, inventory):
    path = inventory({"web1": vm(), "db": vm("two")}, catalog(image))
    for playbook in ("prepare_hosts", "host_facts", "place", "create"):
        lab.ansible_playbook("berth.kvm." + playbook, inventory=[path], env=installed)
    assert sorted(homes(lab)) == ["db", "web1"]
    assert set(lab.ansible_playbook("berth.kvm.create", inventory=[path], env=installed).changed.values()) == {0}
    lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path], env=installed)
    assert left(lab) == {}
