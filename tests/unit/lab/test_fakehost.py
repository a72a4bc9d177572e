# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that make libvirtd see another machine follow the kernel's formats."""

from __future__ import annotations

import pytest
from labkit import fakehost
from labkit.size import Size


@pytest.mark.parametrize("cpus, text", [([0], "0"), ([0, 1, 2, 5], "0-2,5"), ([3, 1], "1,3"), ([], "")])
def test_cpu_list(cpus, text):
    assert fakehost.cpu_list(cpus) == text


@pytest.mark.parametrize("cpus, text", [([0], "00000001"), ([0, 33], "00000002,00000001"), ([], "00000000")])
def test_cpu_mask(cpus, text):
    assert fakehost.cpu_mask(cpus) == text


@pytest.fixture
def host(tmp_path):
    def write(**options):
        fakehost.write_fake_hardware(tmp_path / "sys", tmp_path / "proc", Size(**options))
        return tmp_path

    return write


def test_cells_share_cpus_and_memory_evenly(host):
    nodes = host(cpus=4, cells=2, mem=4096) / "sys/devices/system/node"
    assert [(nodes / cell / "cpulist").read_text() for cell in ("node0", "node1")] == ["0-1\n", "2-3\n"]
    assert "MemTotal:" in (nodes / "node1/meminfo").read_text()
    assert (nodes / "node1/meminfo").read_text().split()[3] == str(2048 * 1024)


def test_threads_of_a_core_are_siblings(host):
    topology = host(cpus=4, threads=2) / "sys/devices/system/cpu/cpu3/topology"
    assert (topology / "thread_siblings_list").read_text() == "2-3\n"


def test_virtual_functions_point_to_their_card_and_back(host):
    devices = host(vfs=9) / "sys/bus/pci/devices"
    assert (devices / "0000:00:11.1" / "physfn").resolve() == (devices / "0000:00:10.0").resolve()
    assert (devices / "0000:00:10.0" / "virtfn8").resolve() == (devices / "0000:00:11.1").resolve()


def test_procfs_agrees_with_sysfs(host):
    proc = host(cpus=3, mem=2048, huge=100) / "proc"
    meminfo = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
    assert meminfo["MemTotal"].split() == [str(2048 * 1024), "kB"]
    assert meminfo["HugePages_Total"].split() == ["100"]
    assert (proc / "cpuinfo").read_text().count("processor") == 3
