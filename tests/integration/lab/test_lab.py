# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab itself: it does what it says, does not collide with another one, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "lab"))

from client import LabClient, run  # noqa: E402


def processes_naming(word):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int(entry.name) != os.getpid()
                and word.encode() in (entry / "environ").read_bytes()
            ):
                found.append(entry.name)
            elif entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def traces(lab):
    """What the machine has of a lab: processes, mounts, links, loop devices, namespaces, files."""
    state = str(lab.state)
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    slots = [path for path in Path("/run/berth-lab").glob("*") if path.is_file() and path.read_text() == state]
    loops = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return {
        "processes": processes_naming(state),
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if state in line],
        "links": [line for slot in slots for line in links.splitlines() if ": bl%s" % slot.name in line],
        "loops": [loop for loop in loops if loop.startswith(state)],
        "slots": slots,
        "files": [lab.state] if lab.state.exists() else [],
    }


def namespaces(pids=None):
    """The namespaces that processes (all of the machine's when not told which) are in."""
    found = set()
    for pid in pids or [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        for kind in ("mnt", "net", "uts", "ipc", "pid", "cgroup"):
            try:
                found.add(os.readlink("/proc/%s/ns/%s" % (pid, kind)))
            except OSError:
                continue  # a process that has ended
    return found


def namespaces_of_hosts(state):
    own = namespaces([path.read_text() for path in state.glob("hosts/*/pid1")]) - namespaces(["self"])
    assert len(own) == 6, own
    return own


@pytest.fixture(scope="module")
def lab():
    lab = LabClient("selftest")
    lab.down()
    lab.up(2, "1:cpus=8,mem=16384,cells=2,vfs=2", "2:cpus=2,mem=2048,disk=1G")
    yield lab
    lab.down()


def test_libvirt_sees_the_size_that_a_host_was_given(lab):
    seen = lab.exec(1, "virsh", "nodeinfo").stdout.split()
    assert "8" in seen and str(16384 * 1024) in seen
    assert lab.exec(1, "virsh", "-q", "nodedev-list", "--cap", "pci").stdout.split().count("pci_0000_00_10_2") == 1
    assert 900 < int(lab.sh(2, "df --output=size -m /var/lib/libvirt | tail -1").stdout) < 1024


def test_ansible_reaches_the_hosts_with_their_keys_checked(lab):
    done = run(
        [
            "ssh",
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=yes",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-i",
            lab.state / "ssh/id_ed25519",
            "root@" + lab.status()["hosts"][0]["address"],
            "true",
        ]
    )
    assert done.rc, "a host whose key is not known must be refused"
    assert lab.module(lab.host(1), "ansible.builtin.ping")["ping"] == "pong"


def test_the_service_module_restarts_libvirtd_without_systemd(lab):
    before = lab.sh(1, "cat /run/libvirtd.pid").stdout
    assert lab.module(lab.host(1), "ansible.builtin.service", {"name": "libvirtd", "state": "restarted"})["changed"]
    assert lab.sh(1, "cat /run/libvirtd.pid").stdout != before
    assert not lab.module(lab.host(1), "ansible.builtin.service", {"name": "libvirtd", "state": "started"})["changed"]


def test_hosts_share_a_directory_and_reach_each_other_by_ssh(lab):
    lab.sh(1, "echo hello > /srv/shared/from1")
    assert lab.exec(2, "ssh", "-o", "BatchMode=yes", lab.host(1), "cat", "/srv/shared/from1").stdout == "hello\n"
    assert "fuse.glusterfs" in lab.exec(1, "cat", "/proc/mounts").stdout


def test_a_change_in_a_host_does_not_reach_the_machine(lab):
    lab.sh(1, "echo x > /etc/berth-lab-selftest; echo x > /var/lib/berth/x; echo x > /run/berth-lab-selftest")
    assert not any(
        Path(path).exists() for path in ("/etc/berth-lab-selftest", "/var/lib/berth/x", "/run/berth-lab-selftest")
    )


def test_up_again_changes_nothing(lab):
    before = [lab.sh(number, "cat /run/libvirtd.pid; cat /etc/machine-id").stdout for number in (1, 2)]
    lab.up(2)
    assert [lab.sh(number, "cat /run/libvirtd.pid; cat /etc/machine-id").stdout for number in (1, 2)] == before


def test_a_host_keeps_its_size(lab):
    assert "another size" in lab.lab("up", "2", "--size", "cpus=16", check=False).output


def test_a_crashed_host_is_gone_and_comes_back_with_what_it_had(lab):
    lab.sh(2, "echo kept > /var/lib/libvirt/kept; echo kept > /etc/kept; setsid sleep 4242 >/dev/null 2>&1 &")
    lab.crash(2)
    assert lab.status()["hosts"][1]["power"] == "down"
    assert lab.module(lab.host(2), "ansible.builtin.ping", check=False).get("unreachable")
    lab.start(2)
    assert lab.sh(2, "cat /var/lib/libvirt/kept /etc/kept").stdout == "kept\nkept\n"
    assert lab.sh(2, "pgrep -f 'sleep 424[2]'", check=False).rc


def test_a_cut_host_runs_on_unreached(lab):
    lab.cut(1)
    try:
        assert lab.exec(2, "ping", "-c1", "-W1", lab.host(1), check=False).rc == 1
        assert lab.exec(1, "virsh", "-q", "uri").stdout.strip() == "qemu:///system"
    finally:
        lab.heal(1)
    assert lab.exec(2, "ping", "-c3", "-W2", lab.host(1), check=False).rc == 0


def test_a_killed_libvirtd_comes_back(lab):
    lab.kill_libvirtd(1)
    assert lab.exec(1, "virsh", "-q", "uri", check=False).rc
    lab.restart_libvirtd(1)
    assert lab.exec(1, "virsh", "-q", "uri").rc == 0


def test_two_labs_and_two_checkouts_run_side_by_side_and_leave_nothing(lab, tmp_path):
    """The third lab has the first one's name, in a copy of the checkout."""
    checkout = tmp_path / "checkout"
    shutil.copytree(REPOSITORY / "lab", checkout / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    second, third = LabClient("selftest-b"), [checkout / "lab/lab", "--name", lab.name]
    third_state = checkout / ".cache/lab" / lab.name
    try:
        second.up(1)
        run([*third, "up", "1"], check=True, timeout=120)
        addresses = [LabClient.status(lab)["hosts"][0]["address"], second.status()["hosts"][0]["address"]]
        addresses.append((third_state / "inventory.yml").read_text().split("ansible_host: ")[1].split()[0])
        assert len(set(addresses)) == 3
        uuids = [entry.sh(1, "virsh capabilities | grep -m1 uuid").stdout for entry in (lab, second)]
        uuids.append(run([*third, "exec", "1", "sh", "-c", "virsh capabilities | grep -m1 uuid"], check=True).stdout)
        assert len(set(uuids)) == 3
        assert second.module(second.host(1), "ansible.builtin.ping")["ping"] == "pong"
        theirs = namespaces_of_hosts(second.state) | namespaces_of_hosts(third_state)
    finally:
        second.down()
        run([*third, "down"], check=True)
    assert not any(traces(second).values()), traces(second)
    assert not processes_naming(str(third_state)) and not third_state.exists()
    assert not namespaces() & theirs
    assert lab.module(lab.host(1), "ansible.builtin.ping")["ping"] == "pong", "the first lab must not have noticed"


def test_down_twice_is_no_error(lab):
    other = LabClient("selftest-never")
    assert "not up" in other.down().output


@pytest.mark.parametrize("name", ["", "A", "1x", "x" * 17, "x/y", "../x"])
def test_a_bad_lab_name_is_refused(name):
    done = run([REPOSITORY / "lab/lab", "--name", name, "status"])
    assert done.rc and "lab name" in done.stderr
