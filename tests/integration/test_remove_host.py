# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that left the fleet, with its keys, at the doors of the others' libvirt."""

from __future__ import annotations


def test_a_removed_host_is_refused_by_libvirt_and_the_others_are_not(lab):
    first, second, third = (lab.host(number) for number in (1, 2, 3))

    def reaches(source, destination):
        uri = "qemu+tls://%s/system" % destination
        return lab.exec(source, "virsh", "-q", "-c", uri, "list", check=False).rc == 0

    assert reaches(third, first) and reaches(second, first)
    removed = lab.ansible_playbook("berth.kvm.remove_host", extra_vars={"berth_remove_host": third})
    try:
        assert "2 certificates of %s are revoked" % third in removed.stdout
        lab.ansible_playbook("berth.kvm.prepare_hosts", "--limit", "%s,%s" % (first, second))
        assert not reaches(third, first) and not reaches(third, second)
        assert reaches(second, first) and reaches(first, second)
    finally:
        lab.ansible_playbook("berth.kvm.prepare_hosts")
    assert reaches(third, first)


def test_the_authorities_are_changed_and_the_hosts_reach_one_another_before_and_after(lab):
    first, second = lab.host(1), lab.host(2)
    old = lab.exec(first, "cat", "/etc/pki/CA/cacert.pem").stdout
    done = lab.ansible_playbook("berth.kvm.rotate_authority")
    assert "Step 3 of 3" in done.stdout and "are dropped" in done.stdout
    new = lab.exec(first, "cat", "/etc/pki/CA/cacert.pem").stdout
    assert new.count("BEGIN CERTIFICATE") == 1 and new != old
    for source, destination in ((first, second), (second, first)):
        uri = "qemu+tls://%s/system" % destination
        assert lab.exec(source, "virsh", "-q", "-c", uri, "list", check=False).rc == 0
    again = lab.ansible_playbook("berth.kvm.prepare_hosts")
    assert "changed=0" in again.stdout
