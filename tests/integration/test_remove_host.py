# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that left the fleet: what is left on it, and what its keys open at the doors of the others' libvirt."""

from __future__ import annotations

import shlex

import pytest

from playbooks import catalog, homes, left, vm, watched

STAYS = {"/etc/libvirt/storage/autostart/berth.xml", "/etc/libvirt/storage/berth.xml", "/run/libvirt/storage/berth.xml"}
TRACES = """
find /etc /run /var /root -xdev -name '*berth*' ! -name berth-lab ! -path /etc/init.d/berth-registry -prune -print
find /etc/pki/CA /etc/pki/libvirt /etc/pki/qemu -type f
"""
STRANGER = """
virsh -q create /dev/stdin <<EOF
<domain type='qemu'><name>stranger</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>
EOF
"""
QEMU = "cat /run/libvirt/qemu/stranger.pid"


def remove(lab, host, *argv, check=True):
    return lab.ansible_playbook("berth.kvm.remove_host", *argv, extra_vars={"berth_remove_host": host}, check=check)


def traces(lab, host):
    """What of berth is on the host beside its storage pool, which stays."""
    return set(lab.sh(host, TRACES).stdout.split()) - STAYS


def listens(lab, host):
    return ":16514" in lab.sh(host, "ss -ltn").stdout


@pytest.mark.slow
def test_libvirt_and_qemu_listen_on_the_migration_address_alone_where_they_are_told_to(lab, image, inventory):
    path = inventory({"a": vm()}, catalog(image))
    alone = {"berth_host_migration_address_only": True}

    own = {row["name"]: row["address"] + ":16514" for row in lab.status()["hosts"]}
    host = lab.host(1)

    def doors(host):
        return [line.split()[3] for line in lab.sh(host, "ss -Hltn").stdout.splitlines() if ":16514" in line]

    try:
        planned = lab.ansible_playbook("berth.kvm.prepare_hosts", "--check", "--diff", extra_vars=alone)
        assert "migration_address_only" in planned.stdout and doors(host) != [own[host]]
        lab.ansible_playbook("berth.kvm.prepare_hosts", extra_vars=alone)
        assert {name: doors(name) for name in own} == {name: [door] for name, door in own.items()}
        assert set(lab.ansible_playbook("berth.kvm.prepare_hosts", extra_vars=alone).changed.values()) == {0}
        lab.ansible_playbook("berth.kvm.create", inventory=[path])
        home = homes(lab)["a"]
        lab.ansible_playbook("berth.kvm.live_migrate", "--limit", "a", inventory=[path])
        assert homes(lab)["a"] != home
        assert "PortClosed" not in lab.ansible_playbook("berth.kvm.doctor", inventory=[path], check=False).output
        lab.ansible_playbook("berth.kvm.delete", "--limit", "a", inventory=[path])
    finally:
        lab.ansible_playbook("berth.kvm.prepare_hosts")
    assert doors(host) not in ([], [own[host]])


def test_a_removed_host_has_nothing_of_berth_and_can_come_back(lab, image, inventory):
    host = lab.host(1)
    path = inventory({"a": vm()}, {**catalog(image), "berth_target_host": host})
    lab.sh(host, STRANGER)
    stranger = lab.sh(host, QEMU).stdout
    try:
        lab.ansible_playbook("berth.kvm.create", inventory=[path])
        refused = remove(lab, host, check=False)
        assert "HostInUse: %s holds instance a" % host in " ".join(refused.output.split()) and listens(lab, host)
        lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
        before = traces(lab, host)
        assert {"/etc/berth", "/var/lib/berth", "/run/berth", "/etc/libvirt/hooks/qemu.d/berth"} < before
        planned = remove(lab, host, "--check", "--diff")
        assert "-/etc/berth/host.json" in planned.stdout and traces(lab, host) == before
        remove(lab, host)
        assert traces(lab, host) == set() and not listens(lab, host)
        assert lab.sh(host, QEMU).stdout == stranger, "guests of others run through all of it"
        again = remove(lab, host)
        assert "Nothing of berth was left on %s." % host in again.stdout and "changed=0" in again.stdout
        assert traces(lab, host) == set(), "a run that only looks leaves nothing either"
    finally:
        lab.ansible_playbook("berth.kvm.prepare_hosts")
    revoked = {"/etc/pki/CA/cacrl.pem", "/etc/pki/qemu/ca-crl.pem"}  # there since its first certificates are revoked
    assert traces(lab, host) - revoked == before - revoked and listens(lab, host)
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    assert homes(lab)["a"] == host


def test_a_host_that_is_removed_while_another_run_creates_there_gets_nothing(lab, image, inventory, tmp_path):
    host = lab.host(1)
    argv = lab.ansible_argv("berth.kvm.remove_host", "-e", "berth_remove_host=" + host)
    command = "%s < /dev/null > %s 2>&1" % (shlex.join(map(str, argv)), tmp_path / "removed")
    path = inventory({"a": vm()}, catalog(image))
    try:
        done = lab.ansible_playbook("berth.kvm.create", inventory=[path], env=watched(at={"Claim": command}))
        assert "HostNotPrepared" in done.output, done.output
        assert homes(lab) == {"a": lab.host(2)} and host not in left(lab)
    finally:
        lab.ansible_playbook("berth.kvm.prepare_hosts")


def test_a_removed_host_is_refused_by_libvirt_and_the_others_are_not(lab):
    first, second, third = (lab.host(number) for number in (1, 2, 3))

    def reaches(source, destination):
        uri = "qemu+tls://%s/system" % destination
        return lab.exec(source, "virsh", "-q", "-c", uri, "list", check=False).rc == 0

    assert reaches(third, first) and reaches(second, first)
    lab.sh(third, "cp -a /etc/pki /root/stolen")
    removed = remove(lab, third)
    try:
        lab.sh(third, "cp -a /root/stolen/. /etc/pki")
        assert "2 certificates of %s are revoked" % third in removed.stdout
        lab.ansible_playbook("berth.kvm.prepare_hosts", "--limit", "%s,%s" % (first, second))
        assert not reaches(third, first) and not reaches(third, second)
        assert reaches(second, first) and reaches(first, second)
    finally:
        lab.sh(third, "rm -rf /root/stolen")
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
