# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A storage pool of type netfs, which libvirt mounts on two hosts: a GlusterFS volume whose brick is on the first."""

from __future__ import annotations

import pytest
from whole import make_whole

from playbooks import catalog, left, records, vm

POOL = "/var/lib/libvirt/gluster"
ADDRESS = "ip -4 -brief address show dev eth0 | grep -o '[0-9.]*/' | tr -d /"
BEGIN = """
mkdir -p /run/gluster /var/lib/glusterd /var/lib/libvirt/brick
glusterd --pid-file=/run/glusterd.pid
until gluster volume list >/dev/null 2>&1; do sleep 0.5; done
gluster --mode=script volume create disks %s:/var/lib/libvirt/brick force
gluster --mode=script volume start disks
"""
JOIN = """
virsh -q pool-define /dev/stdin <<EOF
<pool type='netfs'><name>gluster</name>
<source><host name='%s'/><dir path='/disks'/><format type='glusterfs'/></source><target><path>%s</path></target></pool>
EOF
virsh -q pool-build gluster
timeout 60 virsh -q pool-start gluster
"""
LEAVE = "virsh -q pool-destroy gluster; virsh -q pool-undefine gluster; rmdir " + POOL
END = """
gluster --mode=script volume stop disks force
gluster --mode=script volume delete disks
kill $(cat /run/glusterd.pid)
rm -rf /var/lib/libvirt/brick
"""


@pytest.fixture
def pooled(lab):
    """The first two hosts have the pool."""
    if lab.sh(1, "command -v glusterd && command -v mount.glusterfs", check=False).rc:
        pytest.skip("glusterfs-server is not installed: lab/setup --dev installs it")
    address = lab.sh(1, ADDRESS).stdout.strip()
    lab.sh(1, "set -e\n" + BEGIN % address)
    for host in (1, 2):
        lab.sh(host, "set -e\n" + JOIN % (address, POOL))
    yield lab
    make_whole(lab)
    for host in (1, 2):
        lab.sh(host, LEAVE)
    lab.sh(1, END)


@pytest.mark.slow
def test_an_instance_on_a_netfs_pool_migrates_live_and_its_disk_stays_where_it_is(pooled, image, inventory):
    lab = pooled
    first, second = lab.host(1), lab.host(2)
    user_data = "#cloud-config\n# lab-writer: on\n"
    path = inventory({"shared": vm(pool="gluster", target_host=first, user_data=user_data)}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    disks = "stat -c '%%n %%i' %s/instances/*/root.qcow2" % POOL
    before, disk = lab.guest_facts("shared", first, timeout=180, until=lambda said: said["ack"] > 0), lab.sh(1, disks)

    to_second = {"berth_name": "shared", "berth_target_host": second}
    lab.ansible_playbook("berth.kvm.live_migrate", inventory=[path], extra_vars=to_second)
    assert records(lab) == [(second, "shared", "OWN")]
    after = lab.guest_facts("shared", second, timeout=180, until=lambda said: said["ack"] > before["ack"])
    assert (after["boots"], after["nonce"]) == (before["boots"], before["nonce"])
    assert lab.sh(2, disks).stdout == disk.stdout, "the same file, seen from the other host"

    lab.ansible_playbook("berth.kvm.delete", "--limit", "shared", inventory=[path])
    assert left(lab) == {} and lab.sh(1, "ls %s/instances" % POOL).stdout == ""
