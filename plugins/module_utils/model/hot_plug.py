# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ceilings of a flavor, up to which its running guests get CPUs and memory, and whether a guest gets another flavor
without a restart."""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from . import adopted
from .errors import InvalidInput
from .guest_settings import GuestSettings

MAX_VCPUS, MAX_MEMORY_MB = "berth:max_vcpus", "berth:max_memory_mb"
# ceiling -> the part of a flavor that it is for
SIZES = {MAX_VCPUS: "vcpus", MAX_MEMORY_MB: "memory_mb"}
HIGHEST = {MAX_VCPUS: 255, MAX_MEMORY_MB: 64 << 20}
# Linux takes plugged memory in whole blocks, which are larger in a guest that has much.
BLOCK_MB, LARGE_BLOCK_MB, MUCH_MB = 128, 2048, 64 << 10
PARTS_ON_DISK = ("root_gb", "ephemeral_gb", "swap")
NUMBER = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
# What ties CPUs or memory to what a guest was started with.
TOPOLOGY = ("cpu_sockets", "cpu_cores", "cpu_threads")
CELLS = ("numa_nodes", "mem_page_size")


def ceilings(flavor: Mapping[str, Any]) -> Dict[str, int]:
    """The flavor's extra specs that are ceilings. A host may tell of others than checks() lets through."""
    specs = flavor.get("extra_specs") or {}
    return {name: int(specs[name]) for name in SIZES if NUMBER.match(str(specs.get(name)))}


def most(flavor: Mapping[str, Any], name: str) -> int:
    """Up to how much a guest of the flavor gets while it runs: what it has, without a ceiling."""
    return ceilings(flavor).get(name, int(flavor[SIZES[name]]))


# ---- the flavor alone


def checks(flavor: Mapping[str, Any], settings: GuestSettings, field: str) -> Iterator[Callable[[], None]]:
    """Yield checks of a flavor's ceilings, each of which may raise InvalidInput."""
    specs = flavor.get("extra_specs") or {}
    for name in SIZES:
        if name in specs:
            yield functools.partial(_number, "%s.%s" % (field, name), name, str(specs[name]), flavor)
            yield functools.partial(_alone, "%s.%s" % (field, name), name, settings)


def _number(field: str, name: str, value: str, flavor: Mapping[str, Any]) -> None:
    low, high = int(flavor[SIZES[name]]), HIGHEST[name]
    number = int(value) if NUMBER.match(value) else -1
    if not low <= number <= high:
        raise InvalidInput(field, value, "a whole number from %d, the flavor's %s, to %d" % (low, SIZES[name], high))
    if name == MAX_MEMORY_MB and (number % BLOCK_MB or low % BLOCK_MB):
        raise InvalidInput(
            field,
            value,
            "multiples of %d, this and the flavor's memory_mb: a guest takes memory in such blocks" % BLOCK_MB,
        )


def _alone(field: str, name: str, settings: GuestSettings) -> None:
    """No CPU is pinned later, and no cell of the host grows."""
    tied = [part for part in CELLS if settings.get(part)]
    if settings.get("cpu_policy") in ("dedicated", "mixed"):
        tied.append("cpu_policy")
    if settings.encrypts_memory():
        tied.append("mem_encryption")
    if name == MAX_VCPUS:
        tied += [part for part in TOPOLOGY if settings.get(part)]
    if tied:
        raise InvalidInput(
            field, "beside %s" % ", ".join("hw:%s" % part for part in tied), "no %s, or without these" % name
        )


# ---- from one flavor to another


def restart_needed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Optional[str]:
    """Why a running guest does not get another flavor without a restart on its host, or None. ``old`` and ``new`` are
    requests. "" if neither flavor has a ceiling: nobody expects it then."""
    before, after = old["flavor"], new["flavor"]
    if not (ceilings(before) or ceilings(after)):
        return ""
    if adopted.of(old):
        return "it was adopted"
    if ceilings(before) != ceilings(after):
        return "the flavors have other ceilings"
    if any((before.get(part) or 0) != (after.get(part) or 0) for part in PARTS_ON_DISK):
        return "its disks change"
    differing = sorted(_others(before).items() ^ _others(after).items())
    if differing:
        return "the flavors differ in %s" % differing[0][0]
    return next(iter(_sizes_in_the_way(before, after)), None)


def _others(flavor: Mapping[str, Any]) -> Dict[str, str]:
    """The extra specs but ceilings and limits, which a running guest gets."""
    specs = flavor.get("extra_specs") or {}
    return {name: str(value) for name, value in specs.items() if name not in SIZES and not name.startswith("quota:")}


def _sizes_in_the_way(before: Mapping[str, Any], after: Mapping[str, Any]) -> List[str]:
    found = []
    for name, size in SIZES.items():
        more = int(after[size]) - int(before[size])
        if more < 0:
            found.append("its %s shrink" % size)
        elif more and name not in ceilings(before):
            found.append("the flavors have no %s" % name)
        elif more and name == MAX_MEMORY_MB and more % _block_mb(before):
            found.append("%d MiB more are no multiple of %d, the guest's blocks" % (more, _block_mb(before)))
    return found


def _block_mb(flavor: Mapping[str, Any]) -> int:
    return LARGE_BLOCK_MB if int(flavor["memory_mb"]) >= MUCH_MB else BLOCK_MB
