# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How busy this host is, as Nova's metrics [{name, value}], read from /proc.

Names are Nova's, if it has one. ``*.percent`` and ``psi.*`` are fractions of 1, ``cpu.*.time`` nanoseconds since boot,
cpu.frequency MHz, uptime seconds. cpu.percent is the load of the last minute per CPU, at most 1: a sample taken while gathering facts
would measure the gathering.
"""

from __future__ import annotations

import os
import re
import stat

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
    uptime = re.match(r"[0-9]+", _text(proc, "uptime"))
    if uptime:
        values["uptime"] = int(uptime.group())
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


# Your own numbers for the host's metrics: files ``*.prom`` of the directory ``metrics_directory``, in the format of
# Prometheus' textfile collector in node_exporter: a name and a value in each line, # begins a comment.
FILES, METRICS, BYTES = 50, 100, 65536
BIGGEST = float(1 << 62)
LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})\s+([-+0-9.eE]+)(?:\s+[0-9]+)?\Z")


def read_own(directory, taken, warnings):
    """Return [{name, value}] from the directory's files. Warn about a malformed line, or a name that is ``taken``.
    Programs must replace a file by a rename, so that no partial file is read.
    """
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".prom"))
    except OSError as error:
        warnings.append("metrics_directory %s: %s" % (directory, error.strerror))
        return []
    found = {}
    for name in names[:FILES]:
        path = os.path.join(directory, name)
        try:
            _add(found, _lines(path), taken)
        except (OSError, ValueError) as error:
            warnings.append("%s: %s" % (path, getattr(error, "strerror", None) or error))
    if len(names) > FILES:
        warnings.append("metrics_directory %s: only the first %d files are read" % (directory, FILES))
    return [{"name": name, "value": value} for name, value in sorted(found.items())]


def _lines(path):
    """Read a regular file only: another, such as a pipe, would hold up the facts."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("no file")
        data = os.read(fd, BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > BYTES:
        raise ValueError("more than %d bytes" % BYTES)
    return data.decode("utf-8", "replace").splitlines()


def _add(found, lines, taken):
    """Use a file as a whole or not at all: half of its numbers would be weighed as all of them."""
    own = {}
    for number, line in enumerate(lines, 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        match = LINE.match(line)
        name, value = (match.group(1), _number(match.group(2))) if match else ("", None)
        if value is None:
            raise ValueError("line %d is not a name and a number" % number)
        if name in taken or name in found or name in own:
            raise ValueError("line %d: there is a metric %s already" % (number, name))
        own[name] = value
    if len(found) + len(own) > METRICS:
        raise ValueError("more than %d metrics in all" % METRICS)
    found.update(own)


def _number(text):
    """Return a finite number that facts may contain, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if -BIGGEST <= value <= BIGGEST else None
