# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an update changes of an existing instance: its request from the one that the inventory makes, and in words.

NICs are known by their MAC addresses, which follow from their place in the list unless the inventory names them. What follows
from the sizes of the flavor, from the image and from the host's devices is not changed here: that takes a resize, or the
instance is made anew.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from . import data_disks, flavor_limits, hints, snapshot_hints, snapshots, volumes
from .errors import BerthError, InvalidInput, joined
from .messages import Document
from .request_digest import OF_NIC

Nic = Mapping[str, Any]
CONNECTED = (*OF_NIC, "model")  # a NIC with other values is plugged anew
ADDRESSED = ("network", "address", "address6", "gateway", "gateway6", "nameservers", "dhcp", "default_route")
SEEDED = ("metadata", "ssh_keys_digest")  # what the guest gets of these is in its seed
DISCARDS = "berth_update_discards"  # the data disks that a person gives up
TAKEN = (*SEEDED, "access_ip_v4", "access_ip_v6", "ignition")


class UpdateNotSupported(BerthError):
    """The inventory asks for something that an existing instance does not get, such as a NIC that is a function of a network card."""


def updated(has: Document, wanted: Mapping[str, Any]) -> Document:
    """Return the request ``has`` with what an update takes from ``wanted``."""
    taken = {part: wanted[part] for part in TAKEN if part in wanted}
    new = {**has, **taken, "networks": _networks(has, wanted), "flavor": with_limits(has["flavor"], wanted["flavor"])}
    if "ignition" not in wanted:
        new.pop("ignition", None)
    if "group" in wanted and group_of(has) != group_of(wanted):
        new["group"] = wanted["group"]
    return new


def with_limits(has: Document, wanted: Mapping[str, Any]) -> Document:
    """Return the flavor with the limits of the flavor of its name; one of another name is followed by a resize."""
    if has["name"] != wanted["name"]:
        return has
    others = {
        name: value
        for name, value in (has.get("extra_specs") or {}).items()
        if name not in flavor_limits.of_flavor(has)
    }
    return {**has, "extra_specs": {**others, **flavor_limits.of_flavor(wanted)}}


def _networks(has: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[Document]:
    """A NIC that stays plugged keeps its packet filter, which follows the inventory in a create; another gets a new one."""
    before = by_mac(has)
    found = []
    for nic in wanted.get("networks") or ():
        old = before.get(nic["mac"])
        stays = old is not None and not is_replugged(old, nic)
        found.append({**nic, "security": old.get("security")} if old is not None and stays else dict(nic))
    return found


def by_mac(spec: Mapping[str, Any]) -> Dict[str, Nic]:
    return {nic["mac"]: nic for nic in spec.get("networks") or ()}


def is_replugged(old: Nic, new: Nic) -> bool:
    return any(old.get(part) != new.get(part) for part in CONNECTED)


def group_of(spec: Mapping[str, Any]) -> Any:
    """What counts of a server group: its members change."""
    group = spec.get("group")
    return group and {part: group.get(part) for part in ("name", "policy", "rules")}


def told(spec: Mapping[str, Any]) -> Document:
    """What an update compares of two requests."""
    parts = (*CONNECTED, *ADDRESSED)
    nics = [{part: nic.get(part) for part in parts} for nic in spec.get("networks") or ()]
    return {
        **{part: spec.get(part) or None for part in TAKEN},
        "networks": nics,
        "group": group_of(spec),
        "flavor": spec["flavor"],
    }


def check(name: str, has: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise UpdateNotSupported for NICs that are functions of a network card: their devices are claimed in a create."""
    old, new = by_mac(has), by_mac(wanted)
    for mac in {**old, **new}:
        nics = [nic for nic in (old.get(mac), new.get(mac)) if nic]
        if any(nic["type"] == "direct" for nic in nics) and (len(nics) < 2 or is_replugged(*nics)):
            raise UpdateNotSupported(
                "network interface %s of %s is a function of a network card, which is neither added nor removed later"
                % (mac, name),
                hint=hints.make_anew_to_follow(name),
            )


def check_discards(name: str, spec: Mapping[str, Any], discards: Sequence[Any], disks: Iterable[Document]) -> None:
    """Raise InvalidInput for all data disks that cannot be given up. ``disks``: those of the inventory."""
    named, faults = {disk["name"] for disk in disks}, []
    for disk in discards:
        within = [each["name"] for each in snapshots.of(spec) if "data-%s" % disk in each["disks"]]
        if not isinstance(disk, str) or not re.fullmatch(data_disks.NAME, disk, re.ASCII):
            faults.append(InvalidInput(DISCARDS, disk, data_disks.NAME_RULE))
        elif disk in named:
            faults.append(InvalidInput(DISCARDS, disk, "a data disk that berth_disks of %s does not name" % name))
        elif within:
            rule = "a data disk that no snapshot of %s has; %s" % (name, ", ".join(within))
            faults.append(InvalidInput(DISCARDS, disk, rule, hint=snapshot_hints.delete_one(name, within[0])))
    if faults:
        raise joined(faults)


# ---- in words --------------------------------------------------------------------------------------------------------


REST = "record and definition: what an earlier run or version left out"


def lines(has: Document, new: Document, runs: bool) -> List[str]:
    """Each change, how the guest gets it, and whether it notices; it is never stopped."""
    found = [*_of_nics(by_mac(has), by_mac(new), runs), *_of_limits(has["flavor"], new["flavor"], runs)]
    if group_of(has) != group_of(new):
        names = [(spec.get("group") or {}).get("name") or "none" for spec in (has, new)]
        found.append("server group: %s -> %s, where the instance is" % tuple(names))
    if any(has.get(part) != new.get(part) for part in ("access_ip_v4", "access_ip_v6")):
        found.append("access addresses: in its record")
    return found


def of_discards(has: Mapping[str, Any], there: Mapping[str, int], runs: bool) -> List[str]:
    """The same for the data disks that are given up. ``there``: name -> GiB of those that have a file."""
    how = "while the guest runs" if runs else "with the guest off"
    sizes = {**there, **data_disks.shown(has)}
    return [
        "data disk %s of %d GiB: removed %s, and all that is on it is gone" % (name, sizes[name], how) for name in there
    ]


def of_disks(
    has: Mapping[str, Any], disks: Iterable[Mapping[str, Any]], attached: Optional[List[Document]]
) -> List[str]:
    """The same for the data disks that the inventory names, and for the volumes, None where it says nothing of any."""
    old, found = data_disks.shown(has), []
    for disk in disks:
        name, size_gb = disk["name"], disk["size_gb"]
        if name not in old:
            found.append("data disk %s of %d GiB: added" % (name, size_gb))
        elif size_gb > old[name]:
            found.append("data disk %s: %d -> %d GiB" % (name, old[name], size_gb))
    if attached is None:
        return found
    there, wanted = volumes.shown(has), {entry["name"]: entry["size_gb"] for entry in attached}
    found += ["volume %s: detached, and kept" % name for name in there if name not in wanted]
    found += ["volume %s of %d GiB: attached" % (name, wanted[name]) for name in wanted if name not in there]
    changed = [name for name in wanted if name in there and wanted[name] != there[name]]
    return found + ["volume %s: %d -> %d GiB" % (name, there[name], wanted[name]) for name in changed]


def of_seed(has: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    parts = [text for part, text in zip(SEEDED, ("metadata", "SSH keys")) if told(has)[part] != told(new)[part]]
    return "seed (%s): made anew, and read when the guest is next started, not at a reboot from inside" % (
        " and ".join(parts) or "user data, files or addresses"
    )


def _of_nics(old: Mapping[str, Nic], new: Mapping[str, Nic], runs: bool) -> List[str]:
    how = "while the guest runs" if runs else "from its next start on"
    found = []
    for mac in {**old, **new}:
        said = "network interface %s" % mac
        if mac not in new:
            found.append("%s on %s: removed %s" % (said, old[mac]["network"], how))
        elif mac not in old:
            found.append("%s on %s: added %s" % (said, _place(new[mac]), how))
        elif is_replugged(old[mac], new[mac]):
            found.append("%s: plugged anew %s, %s -> %s" % (said, how, _place(old[mac]), _place(new[mac])))
        elif any(old[mac].get(part) != new[mac].get(part) for part in ADDRESSED):
            found.append("%s: %s -> %s, which its user sets in the guest" % (said, _place(old[mac]), _place(new[mac])))
    return found


def _place(nic: Nic) -> str:
    addresses = [str(nic[part]) for part in ("address", "address6") if nic.get(part)]
    return " with ".join([str(nic["network"]), *([" and ".join(addresses)] if addresses else [])])


def _of_limits(has: Mapping[str, Any], new: Mapping[str, Any], runs: bool) -> List[str]:
    old, wanted = flavor_limits.of_flavor(has), flavor_limits.of_flavor(new)
    names = [name for name in sorted({**old, **wanted}) if old.get(name) != wanted.get(name)]
    changes = ", ".join("%s %s -> %s" % (name, old.get(name, "none"), wanted.get(name, "none")) for name in names)
    return ["limits: %s, %s" % (changes, "at once" if runs else "from its next start on")] if changes else []
