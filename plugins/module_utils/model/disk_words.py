# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of an instance in words, each with its size: what an operation gives up, said before and after."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping

from . import adopted, data_disks, volumes


def own(spec: Mapping[str, Any], image_gb: int = 0) -> List[str]:
    """Those that the instance has besides its volumes, without swap. A root disk of 0 GiB is as large as its image, which
    has ``image_gb`` if that is known."""
    if adopted.of(spec):
        return adopted.words(spec)
    flavor = spec.get("flavor") or {}
    sizes = {} if volumes.boot(spec) else {"root disk": (flavor.get("root_gb") or 0) or image_gb}
    if flavor.get("ephemeral_gb"):
        sizes["ephemeral disk"] = flavor["ephemeral_gb"]
    sizes.update(("data disk %s" % name, size_gb) for name, size_gb in data_disks.shown(spec).items())
    return [_sized(*each) for each in sizes.items()]


def root(size_gb: int) -> str:
    return _sized("root disk", size_gb)


def _sized(name: str, size_gb: int) -> str:
    return "%s %d GiB" % (name, size_gb) if size_gb else name


def of_volumes(entries: Iterable[Mapping[str, Any]]) -> List[str]:
    return ["volume %s %d GiB" % (entry["name"], entry["size_gb"]) for entry in entries]


def volumes_going(spec: Mapping[str, Any]) -> List[str]:
    return of_volumes(entry for entry in volumes.of(spec) if entry.get("delete_on_termination"))


def going(spec: Mapping[str, Any], image_gb: int = 0) -> List[str]:
    """Those that a delete of the instance removes."""
    return own(spec, image_gb) + volumes_going(spec)


def given_up(words: Iterable[str]) -> str:
    text = ", ".join(dict.fromkeys(words))
    return "gives up %s" % text if text else ""
