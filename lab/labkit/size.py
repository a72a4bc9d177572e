# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size that a lab host is given: what its libvirtd shall believe to have, and how large its disk really is."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass


class BadSize(ValueError):
    """A size option that makes no sense; the message says which and why."""


@dataclass(frozen=True)
class Size:
    """cpus, threads (a core), cells, mem (MiB), huge (2 MiB pages a cell), vfs, gpus, disk (bytes), kvm (0|1)."""

    cpus: int = 4
    threads: int = 1
    cells: int = 1
    mem: int = 8192
    huge: int = 0
    vfs: int = 0
    gpus: int = 0
    disk: int = 10 << 30
    kvm: int = 0

    def to_dict(self):
        return asdict(self)


MINIMUM = {"cpus": 1, "threads": 1, "cells": 1, "mem": 1024, "disk": 256 << 20}
MAXIMUM = {"cpus": 1024, "threads": 8, "cells": 8, "mem": 16 << 20, "vfs": 63, "gpus": 8, "disk": 64 << 40, "kvm": 1}
UNITS = {"": 1, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _value(key, text):
    match = re.fullmatch(r"(\d{1,15})([MGT]?)", text)
    if not match or (match.group(2) and key != "disk"):
        raise BadSize(
            "%s=%s: a whole number is needed%s" % (key, text, " (disk: with M, G or T)" if key == "disk" else "")
        )
    value = int(match.group(1)) * UNITS[match.group(2)]
    low, high = MINIMUM.get(key, 0), MAXIMUM.get(key, 1 << 30)
    if not low <= value <= high:
        raise BadSize("%s=%s: must be between %d and %d" % (key, text, low, high))
    return value


def _check(size):
    if size.cpus % (size.cells * size.threads):
        raise BadSize(
            "cpus=%d does not divide into %d cells with %d threads a core" % (size.cpus, size.cells, size.threads)
        )
    if size.huge * 2 > size.mem // size.cells // 2:
        raise BadSize("huge=%d: huge pages may take half of a cell's memory at most" % size.huge)
    return size


def parse_options(text):
    """'cpus=4,mem=8192' -> {'cpus': 4, 'mem': 8192}."""
    options = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in Size.__dataclass_fields__ or not equals:
            raise BadSize("%s: known options are %s" % (part, ", ".join(Size.__dataclass_fields__)))
        options[key] = _value(key, value)
    return options


def sizes_for(count, arguments):
    """The sizes of hosts 1..count from --size arguments: 'N:options' for one host, 'options' for all of them."""
    common, special = {}, {}
    for argument in arguments:
        match = re.match(r"(\d+):(.*)", argument)
        if match:
            special.setdefault(int(match.group(1)), {}).update(parse_options(match.group(2)))
        else:
            common.update(parse_options(argument))
    unknown = [number for number in special if not 1 <= number <= count]
    if unknown:
        raise BadSize("--size %d:... but there are %d hosts" % (unknown[0], count))
    return {number: _check(Size(**{**common, **special.get(number, {})})) for number in range(1, count + 1)}
