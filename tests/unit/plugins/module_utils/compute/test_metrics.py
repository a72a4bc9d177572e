# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics come from /proc; what a kernel does not tell is left out (S22)."""

from __future__ import annotations

import os

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts, metrics, settings


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


def own(directory, **files):
    for name, text in files.items():
        (directory / (name + ".prom")).write_text(text)
    warnings = []
    found = metrics.read_own(str(directory), {"cpu.percent"}, warnings)
    return {entry["name"]: entry["value"] for entry in found}, warnings


def test_numbers_of_ones_own_are_read_as_the_textfile_collector_reads_them(tmp_path):
    text = "# HELP rack_watts power\nrack_watts 312.5\n\n  disk.wear -1e-3 1700000000\n"
    assert own(tmp_path, power=text, more="nic.errors 7") == (
        {"rack_watts": 312.5, "disk.wear": -0.001, "nic.errors": 7.0},
        [],
    )


@pytest.mark.parametrize(
    "text",
    [
        "watts",
        "watts x",
        "watts nan",
        "watts 1e400",
        "watts{rack=1} 3",
        "watts 3\nwatts 4",
        "cpu.percent 0",
        "a 1\n" * 20000,
    ],
)
def test_a_file_with_anything_else_counts_for_nothing_and_is_a_warning(text, tmp_path):
    found, warnings = own(tmp_path, bad=text, good="fans 2")
    assert found == {"fans": 2.0} and len(warnings) == 1 and "bad.prom" in warnings[0]


def test_a_pipe_a_link_and_a_directory_that_is_not_there_hold_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "pipe.prom")
    (tmp_path / "link.prom").symlink_to("/etc/passwd")
    writer = os.open(tmp_path / "pipe.prom", os.O_RDWR)  # who writes and says nothing
    found, warnings = own(tmp_path)
    os.close(writer)
    assert (
        found == {} and [name in warning for name, warning in zip(("link.prom", "pipe.prom"), warnings)] == [True] * 2
    )
    assert "metrics_directory /nowhere: No such file" in _warned("/nowhere")[0]


def _warned(directory):
    warnings = []
    metrics.read_own(directory, (), warnings)
    return warnings


def test_no_more_metrics_are_told_than_facts_may_have(tmp_path):
    lines = ["".join("m%d_%d 1\n" % (number, at) for at in range(60)) for number in range(3)]
    found, warnings = own(tmp_path, **{"f%d" % number: text for number, text in enumerate(lines)})
    assert len(found) == 60 and len(warnings) == 2


def test_the_host_tells_them_where_its_settings_name_the_directory(tmp_path):
    (tmp_path / "a.prom").write_text("rack_watts 312.5")
    cpus = {"online": [0], "frequency": 2600}
    for directory, told in ((None, False), (str(tmp_path), True)):
        known = settings.parse({"metrics_directory": directory})
        assert ({"name": "rack_watts", "value": 312.5} in facts._metrics(known, cpus, [])) is told
        assert ("metrics_directory" in known.to_dict()) is told
