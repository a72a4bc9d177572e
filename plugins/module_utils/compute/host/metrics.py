# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How busy this host is, as Nova's metrics [{name, value}], read from /proc.

Names are Nova's, if it has one. ``*.percent`` and ``psi.*`` are fractions of 1, ``cpu.*.time`` nanoseconds since boot,
cpu.frequency MHz. cpu.percent is the load of the last minute per CPU, at most 1: a sample taken while gathering facts
would measure the gathering.
"""

from __future__ import annotations

import os
import re

TIMES = {"user": 0, "kernel": 2, "idle": 3, "iowait": 4, "steal": 7}


def read(cpus, frequency, proc="/proc"):
    """Return the metrics, without what the kernel does not report. ``cpus``: how many are online."""
    values = {"cpu.frequency": frequency}
    ticks = _cpu_ticks(proc)
    if ticks:
        total = sum(ticks[:8]) or 1
        for name, column in TIMES.items():
            values["cpu.%s.time" % name] = ticks[column] * 1000000000 // os.sysconf("SC_CLK_TCK")
        values["cpu.steal.percent"] = round(ticks[TIMES["steal"]] / total, 4)
    load = re.match(r"[0-9.]+", _text(proc, "loadavg"))
    if load:
        values["cpu.percent"] = round(min(1.0, float(load.group()) / max(1, cpus)), 4)
        values["load.1"] = float(load.group())
    for resource in ("cpu", "memory", "io"):
        pressure = re.search(r"some avg10=([0-9.]+)", _text(proc, "pressure", resource))
        if pressure:
            values["psi.%s.some.avg10" % resource] = round(float(pressure.group(1)) / 100, 4)
    return [{"name": name, "value": value} for name, value in sorted(values.items())]


def _text(*path):
    try:
        with open(os.path.join(*path), encoding="ascii", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def _cpu_ticks(proc):
    match = re.match(r"cpu +([0-9 ]+)\n", _text(proc, "stat"))
    numbers = [int(part) for part in match.group(1).split()] if match else []
    return numbers if len(numbers) >= 8 else []
