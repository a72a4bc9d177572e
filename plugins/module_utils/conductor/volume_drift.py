# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the inventory differs from the volumes of an instance on its host, described for people."""

from __future__ import annotations

from typing import Any, Collection, Iterator, Mapping, Optional

from ..model import hints, volume_hints
from ..model.volumes import boot_order, going, shown


def of_boot_order(
    name: str, attached: Collection[str], has: Mapping[str, int], spec: Mapping[str, Any]
) -> Iterator[str]:
    """Yield how the boot order ``has`` of instance ``name`` differs from the inventory's request, and what to do."""
    if "volumes" not in spec:
        return
    wanted = boot_order(spec)
    first, asked = (next((volume for volume, index in order.items() if index == 0), None) for order in (has, wanted))
    if asked != first:
        own = "volume %s" % first if first else "its own root disk"
        text = "volume %s" % asked if asked else "a root disk of its own"
        hint = volume_hints.say_what_it_boots_from(name, first, asked)
        yield "boots from %s, but the inventory says from %s. An existing instance keeps what it boots from. %s" % (
            own,
            text,
            hint,
        )
    for volume in sorted({*attached} & {*shown(spec)}):
        old, new = has.get(volume), wanted.get(volume)
        if old != new and 0 not in (old, new):
            text = "boot_index of volume %s is %s, the inventory says %s. " % (volume, old or "none", new or "none")
            yield text + volume_hints.attach_again(name, volume)


def of_volumes(name: str, has: Mapping[str, int], goes: Collection[str], spec: Mapping[str, Any]) -> Optional[str]:
    """How the volumes of instance ``name`` differ from the inventory, and what resolves it. ``goes``: the volumes that
    a delete of the instance removes; ``spec``: the inventory's request, which may not mention volumes."""
    if "volumes" not in spec:
        return None
    wanted, shall_go = shown(spec), going(spec)
    lacks = ["no volume %s" % volume for volume in sorted(set(wanted) - set(has))]
    both = sorted(set(has) & set(wanted))
    lacks += [
        "volume %s of %d GiB, not %d" % (each, has[each], wanted[each]) for each in both if has[each] != wanted[each]
    ]
    lacks += [
        "volume %s, which a delete would remove although the inventory keeps it" % each
        for each in both
        if each in {*goes} - {*shall_go}
    ]
    lacks += [
        "volume %s, which a delete would keep although the inventory removes it" % each
        for each in both
        if each in {*shall_go} - {*goes}
    ]
    lacks += ["volume %s, which the inventory does not name" % volume for volume in sorted(set(has) - set(wanted))]
    return "has %s. %s" % (", ".join(lacks), hints.update_disks_to_follow(name)) if lacks else None
