# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input on real hosts: an error with a stable code, exit status not zero, and nothing changed anywhere (I11).

The table of all kinds of bad input is tests/unit/plugins/action/test_placement.py; here is what only a host can find.
"""

from __future__ import annotations

from playbooks import catalog, left, vm

EVIL = "/srv/shared/images/evil.qcow2"


def test_wrong_word_changes_nothing_anywhere(lab, image, inventory):
    """One bad instance stops the run before any host is asked to do something."""
    path = inventory({"good": vm(), "bad": {**vm(), "berth_flavor": "tinny"}}, catalog(image))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], check=False)
    assert (done.rc, "FlavorNotFound" in done.stdout, "tiny" in done.stdout) == (2, True, True)
    assert left(lab) == {}


def test_image_with_a_backing_file_is_refused_and_no_other_host_is_tried(lab, image, inventory):
    """CVE-2024-32498 and kin; C30: a bad image is bad everywhere."""
    lab.sh(1, "qemu-img create -q -f qcow2 -F raw -b /etc/shadow %s 64M" % EVIL)
    checksum = lab.sh(1, "sha256sum %s" % EVIL).stdout.split()[0]
    evil = {**image, "url": EVIL, "checksum": "sha256:" + checksum}
    path = inventory({"a": vm()}, catalog(evil))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], check=False)
    assert done.rc == 2
    assert "ImageInvalid" in done.stdout
    assert "attempt 2" not in done.stdout
    assert left(lab) == {}


def test_network_that_only_some_hosts_have_leads_to_an_alternate(lab, image, inventory):
    """C06, A09, C30: the chosen host lacks the bridge, an alternate has it."""
    lab.sh(2, "ip link add br9 type bridge && ip link set br9 up")
    networks = {"berth_networks_defined": {"lan": {"type": "bridge", "source": "br9"}}}
    path = inventory({"a": vm()}, {**catalog(image), **networks})
    try:
        done = lab.ansible_playbook("berth.kvm.create", inventory=[path])
        assert "after NetworkNotFound on %s" % lab.host(1) in done.stdout
    finally:
        lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
        lab.sh(2, "ip link del br9")
    assert left(lab) == {}
