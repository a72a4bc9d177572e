# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backups and snapshots of instances, and images made of them, as people read them."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Sequence

from ..model import clone_hints, made_images
from ..model.backups import TPM_STATE, VARIABLES
from ..placement.text import table

WORDS = {
    "backup": "backup", "delete_backup": "deletes backup", "restore": "now has backup", "shelve": "backup", "unshelve": "now has backup",
}  # fmt: skip
FILES = {VARIABLES: "UEFI variables", TPM_STATE: "the state of its TPM"}
MIB = 1 << 20


def lines(operation: str, name: str, host: str, backups: Sequence[Mapping[str, Any]]) -> List[str]:
    """``backups``: as module instance_backup returns them."""
    if operation != "backups":
        return ["%s on %s: %s %s" % (name, host, WORDS[operation], text) for each in backups for text in _text(each)]
    shown = ["    %s" % text for each in backups for text in _text(each)]
    return ["", "%s: backups that %s reads" % (name, host), *(shown or ["    none"])]


def image_lines(name: str, host: str, image: Mapping[str, Any]) -> List[str]:
    """``image``: as module instance_backup returns it."""
    frozen = ", file systems frozen" if image["frozen"] else ""
    what = "%s on %s: image %s, %d MiB%s. In the catalog:" % (
        name, host, image["name"], -(-image["bytes"] // MIB), frozen,
    )  # fmt: skip
    return ["", what, *made_images.entry(image), "    %s" % clone_hints.share_image(host, image["path"])]


def _text(backup: Mapping[str, Any]) -> Iterator[str]:
    if "kind" not in backup:
        yield "%s is none: %s" % (backup["id"], "; ".join(backup["faults"]))
        return
    on = ", on %s" % backup["previous"] if backup["previous"] else ""
    parts = [
        "%s of %s, %s%s, %d MiB" % (backup["id"], backup["of"], backup["kind"], on, -(-backup["bytes"] // MIB)),
        "file systems frozen" if backup["frozen"] else "",
        *("with %s" % FILES[name] for name in backup["files"]),
        *("all of %s" % why for why in backup["why"]),
    ]
    faults = backup["faults"]
    yield "; ".join(filter(None, [*parts, "CANNOT BE RESTORED: %s" % "; ".join(faults) if faults else ""]))


SNAPSHOTS = ("INSTANCE", "SNAPSHOT", "MADE AT", "GUEST WAS", "MEMORY", "ROOM", "DISKS")


def snapshot_lines(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> List[str]:
    """``found``: instance -> its snapshots, as module instance_info returns them."""
    rows = [
        (
            name,
            each["name"],
            each["made_at"] or "not whole",
            each["taken"] or "",
            "yes" if each.get("memory") else "no",
            "%d GiB" % each["size_gb"],
            ", ".join(each["disks"]),
        )
        for name, entries in found.items()
        for each in entries
    ]
    return ["", *table(SNAPSHOTS, rows)] if rows else []
