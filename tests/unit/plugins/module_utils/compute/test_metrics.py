# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics come from /proc; what a kernel does not tell is left out (S22)."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import metrics


def read(proc, cpus=4):
    return {entry["name"]: entry["value"] for entry in metrics.read(cpus, 2600, str(proc))}


def proc(tmp_path):
    (tmp_path / "pressure").mkdir()
    (tmp_path / "stat").write_text("cpu  100 0 50 800 30 0 0 20 0 0\ncpu0 1 1\n")
    (tmp_path / "loadavg").write_text("3.00 1.00 0.50 1/200 4711\n")
    (tmp_path / "pressure" / "io").write_text("some avg10=12.50 avg60=0.00 avg300=0.00 total=0\nfull avg10=1.00\n")
    return tmp_path


def test_load_is_a_part_of_the_cpus(tmp_path):
    found = read(proc(tmp_path))
    assert (found["cpu.percent"], found["load.1"], found["cpu.frequency"]) == (0.75, 3.0, 2600)


def test_cpu_percent_never_passes_one(tmp_path):
    assert read(proc(tmp_path), cpus=1)["cpu.percent"] == 1.0


def test_times_are_nanoseconds_and_steal_is_a_part_of_all_time(tmp_path):
    found = read(proc(tmp_path))
    assert found["cpu.user.time"] == 1000000000
    assert found["cpu.steal.percent"] == 0.02


def test_pressure_is_a_part_of_one(tmp_path):
    assert read(proc(tmp_path))["psi.io.some.avg10"] == 0.125


def test_a_kernel_that_tells_nothing_leaves_only_the_frequency(tmp_path):
    assert read(tmp_path) == {"cpu.frequency": 2600}
