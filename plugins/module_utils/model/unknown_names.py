# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors for unknown names, in the catalog or on a host, with what was probably meant."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional

from . import input_hints
from .errors import BerthError

# What others call a field or a value, unlike our names.
OF_OTHERS = {
    "bridge": "source network", "cores": "vcpus", "cpu": "vcpus cores", "disk": "root_gb", "dns": "nameservers",
    "ip": "address", "memory": "memory_mb ram", "nat": "network", "off": "stopped", "on": "active", "ram": "memory_mb",
    "running": "active", "started": "active", "true": "active", "vlan_id": "vlan", "vms": "instances",
}  # fmt: skip


def nearest(name: Any, names: Iterable[str], cutoff: float = 0.6) -> Optional[str]:
    """Return the one of ``names`` that is most similar to ``name``, or None if none is similar. ``cutoff``: how
    similar, from 0 to 1, which is equal."""
    import difflib  # slow, and most runs have no unknown name

    by_lower = {known.lower(): known for known in sorted(names)}
    for ours in OF_OTHERS.get(str(name).lower(), "").split():
        if ours in by_lower:
            return ours
    near = difflib.get_close_matches(str(name), by_lower.values(), n=1, cutoff=cutoff)
    lower = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=cutoff)
    return near[0] if near else by_lower[lower[0]] if lower else None


def meant(name: str) -> str:
    return "Did you mean %s?" % name


def did_you_mean(name: Any, names: Iterable[Any], kind: Optional[str] = None) -> str:
    """A hint for the unknown ``name``: the nearest of ``names``, else all of them if they are few. ``kind`` is what has
    these names, such as "flavor"."""
    known = sorted(str(entry) for entry in names)
    near = nearest(name, known)
    if near:
        return meant(near)
    if kind and not known:
        return "No %ss are defined: do so where every instance inherits it, such as in group_vars/all.yml" % kind
    return known_names(known)


def known_names(known: List[str]) -> str:
    """The first of all names that there are."""
    if not known:
        return "There are none"
    if len(known) <= 8:
        return "Known: %s" % ", ".join(known)
    return "Known: %s and %d more" % (", ".join(known[:8]), len(known) - 8)


class UnknownName(BerthError):
    """The instance's variables contain a name that is not in the catalog."""

    kind: str

    @classmethod
    def named(cls, field: str, name: Any, known: Iterable[str]) -> UnknownName:
        shown = name if str(name) == str(name).strip() else repr(name)  # a space that nobody sees
        message = "%s: there is no %s %s" % (field, cls.kind, shown)
        several = "," in str(name) and ("[" in field or field.endswith(".network"))  # of a field that is a list
        hint = input_hints.list_with_e() if several else cls.advice(name, known)
        return cls(message, field=field, value=name, hint=hint)

    @classmethod
    def advice(cls, name: Any, known: Iterable[str]) -> str:
        return did_you_mean(name, known, cls.kind)

    @classmethod
    def withheld(cls, field: str, name: str, why: str, usable: Iterable[str]) -> UnknownName:
        """The catalog has it, and ``why`` it may not be used."""
        known = sorted(usable)
        hint = "Correct berth_%ss.%s%s" % (
            cls.kind,
            name,
            ", or choose another. " + known_names(known) if known else "",
        )
        return cls("%s: %s %s %s" % (field, cls.kind, name, why), field=field, value=name, hint=hint)


class FlavorNotFound(UnknownName):
    """The flavor is not defined, is disabled, or belongs to other projects."""

    kind = "flavor"


class ImageNotFound(UnknownName):
    """The image is not defined, or belongs to other projects."""

    kind = "image"

    @classmethod
    def advice(cls, name: Any, known: Iterable[str]) -> str:
        return input_hints.image_by_name() if "/" in str(name) else super().advice(name, known)


class NetworkNotFound(UnknownName):
    """The network is not defined, or a host lacks its bridge, libvirt network or filter: another host may have that."""

    kind = "network"

    def __init__(self, message: str, retryable: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.retryable = retryable


class SecurityGroupNotFound(UnknownName):
    """The security group is not defined."""

    kind = "security group"


class ServerGroupNotFound(UnknownName):
    """The server group is not defined."""

    kind = "server group"


class KeypairNotFound(UnknownName):
    """The key pair is not defined."""

    kind = "key pair"


class VolumeNotDefined(UnknownName):
    """The volume is not in berth_volumes_defined."""

    kind = "volume"


class AvailabilityZoneNotFound(UnknownName):
    """No aggregate has this availability zone."""

    kind = "availability zone"
