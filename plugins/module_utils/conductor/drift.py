# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an instance differs: the inventory from the record on its host, and the record from the guest in libvirt,
described for people. Nothing acts on it: the differences are shown, and no host is changed.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..model import (
    data_disks,
    fleet_hints,
    hints,
    migration,
    nics,
    operation_hints,
    packet_hints,
    packet_words,
    updates,
    volume_hints,
)
from ..model.lifecycle import RESIZED
from ..model.messages import Document
from ..model.move_errors import CannotResizeDisk
from ..model.request_digest import digests
from ..model.safe_text import clean_all
from ..model.volumes import boot_order, going, shown
from .fleet import Place

SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
EXTRA = "extra_specs"
POLICY = "group_policy"  # the digest of what the server group demands
# What only an update changes after an instance is created: name of the digest -> how it is shown.
KEPT = {"networks": "networks", "ssh_keys": "SSH keys", "metadata": "metadata"}


def said(instance: Mapping[str, Any]) -> Document:
    """The request of an instance of a plan, without the parts that nobody has given."""
    return {part: value for part, value in instance["spec"].items() if part not in instance.get("unsaid", ())}


def differences(name: str, place: Place, wanted: Document) -> List[str]:
    """All differences from the inventory's request ``wanted``, each with the command that helps."""
    parts = (
        of_flavor_name(name, place["flavor"], wanted["flavor"], place["content"], waits=place["phase"] == RESIZED),
        of_flavor_content(name, place, wanted),
        of_nics(name, place["unfiltered"] or (), wanted.get("networks") or ())
        or of_security_groups(name, place, wanted),
        of_data_disks(name, place["disks"], wanted) if place["disks"] is not None else None,
        *of_request(name, place, wanted),
    )
    return [part for part in parts if part]


def of_data_disks(name: str, has: Mapping[str, int], spec: Mapping[str, Any]) -> Optional[str]:
    """How the data disks of instance ``name`` differ from the inventory, and how they can follow it."""
    wanted = data_disks.shown(spec) if "disks" in spec else has
    lacks = ["no data disk %s" % disk for disk in sorted(set(wanted) - set(has))]
    both = sorted(set(has) & set(wanted))
    lacks += [
        "data disk %s of %d GiB, not %d" % (disk, has[disk], wanted[disk]) for disk in both if has[disk] < wanted[disk]
    ]
    unnamed = sorted(set(has) - set(wanted))
    stays = ["data disk %s, which stays although the inventory does not name it" % disk for disk in unnamed]
    stays += [
        "data disk %s of %d GiB, which does not shrink to %d" % (disk, has[disk], wanted[disk])
        for disk in both
        if has[disk] > wanted[disk]
    ]
    if not lacks + stays:
        return None
    ways = [hints.update_disks_to_follow(name)] * bool(lacks)
    ways += [operation_hints.discard(name, unnamed)] * bool(unnamed)
    return ". ".join(["has %s" % ", ".join(lacks + stays), *ways])


def of_domain(name: str, differs: Optional[Mapping[str, Any]]) -> Optional[str]:
    """What somebody changed in libvirt's definition of the guest, and when the definition follows the record again; and
    where its packets do not go as the record says."""
    text = by_hand(differs)
    changed = "live domain differs: %s; %s" % (text, repaired(name, differs)) if text else None
    return "; ".join(part for part in (of_packets(name, differs), changed) if part) or None


def of_packets(name: str, differs: Optional[Mapping[str, Any]]) -> Optional[str]:
    """What is wrong in the host's kernel with the packets of the guest, which somebody changed beside libvirt."""
    wrong = (differs or {}).get("kernel")
    return packet_words.told(name, wrong) if wrong else None


def by_hand(differs: Optional[Mapping[str, Any]]) -> str:
    every = dict.fromkeys(tuple(difference) for when in ("next_start", "now") for difference in _when(differs, when))
    return ", ".join(_by_hand(*difference) for difference in every)


def repaired(name: str, differs: Optional[Mapping[str, Any]]) -> str:
    """When a difference is repaired. A running guest gets only disks and filters that it lacks; its definition is changed on
    request."""
    lacks_disk = any(part.startswith(data_disks.PART) for part, _asked, _has in _when(differs, "now"))
    ways = [volume_hints.update_disks_to_attach(name)] * lacks_disk
    ways += [hints.mend(name)] * bool(_when(differs, "next_start"))
    return " or with ".join(["repaired at the next start", *ways])


def _when(differs: Optional[Mapping[str, Any]], when: str) -> Sequence[Sequence[str]]:
    return (differs or {}).get(when) or []


def _by_hand(part: str, asked: str, has: str) -> str:
    if not has:
        return "%s missing" % part
    return "%s %s (record: %s)" % (part, has, asked or "none")


def of_flavor_name(
    name: str, has: Optional[str], wanted: Document, content: Optional[Document] = None, waits: bool = False
) -> Optional[str]:
    """``has`` is the name of its flavor and ``content`` what that is; ``wanted`` the inventory's. An instance that
    ``waits`` for its confirmation is not resized."""
    asked = wanted.get("name")
    if not has or not asked or has == asked:
        return None
    return "inventory says %s" % asked + ("" if waits else ". " + _to_follow(name, has, content, wanted))


def _to_follow(name: str, has: str, content: Optional[Document], wanted: Document) -> str:
    """A resize that would be refused, since no disk shrinks, is not advised; nor is one where an update does."""
    if (
        content
        and content.get("name") == wanted.get("name")
        and not _changed(updates.with_limits(content, wanted), wanted)
    ):
        return operation_hints.update_to_follow(name)
    try:
        migration.check_grow_only(content or wanted, wanted)
    except CannotResizeDisk as error:
        return "%s. %s" % (error.message, fleet_hints.keep_flavor(name, has, str(wanted.get("name"))))
    return fleet_hints.resize_to_follow(name)


def of_flavor_content(name: str, place: Place, wanted: Document) -> Optional[str]:
    """The flavor has the same name in the inventory, but other content by now."""
    has, asked = place["content"], clean_all(wanted["flavor"])
    if not has or has.get("name") != asked.get("name"):
        return None
    changed = ["%s %s (has %s)" % (part, new, old) for part, new, old in _changed(has, asked)]
    if not changed:
        return None
    text = "flavor %s now means %s" % (has["name"], ", ".join(changed))
    return text + (
        "" if place["phase"] == RESIZED else ". " + _to_follow(name, str(has["name"]), has, wanted["flavor"])
    )


def _changed(has: Mapping[str, Any], asked: Mapping[str, Any]) -> List[Tuple[str, Any, Any]]:
    """Return (field, asked, had) of the sizes and extra specs that differ."""
    found = [(part, asked.get(part) or 0, has.get(part) or 0) for part in SIZES]
    new, old = (specs if isinstance(specs, dict) else {} for specs in (asked.get(EXTRA), has.get(EXTRA)))
    found += [(part, new.get(part, "nothing"), old.get(part, "nothing")) for part in sorted({*new, *old})]
    return [entry for entry in found if str(entry[1]) != str(entry[2])]


def of_security_groups(name: str, place: Place, wanted: Document) -> Optional[str]:
    """Security groups are compared only if the networks agree; a difference of the networks is reported on its own."""
    has, asked = place["request_digests"] or {}, digests(wanted)
    groups = "security_groups"
    if (
        groups not in has
        or groups not in asked
        or has[groups] == asked.get(groups)
        or has.get("networks") != asked.get("networks")
    ):
        return None
    return "inventory says other security groups. %s" % fleet_hints.create_to_filter(name)


def of_request(name: str, place: Place, wanted: Document) -> Sequence[Optional[str]]:
    """What no answer of its host has: what only digests tell of its request."""
    return _of_image(name, place, wanted), _of_kept(name, place, wanted)


def _of_image(name: str, place: Place, wanted: Document) -> Optional[str]:
    """What an instance gets in a rebuild."""
    has, asked = (place["request_digests"] or {}).get("image"), digests(wanted).get("image")
    if has is None or asked is None or has == asked:
        return None
    if place.get("adopted"):  # a rebuild of it is refused
        return "inventory says other image, which counts for nothing: it was adopted"
    return "inventory says other image. %s" % operation_hints.rebuild_to_follow(name)


def _of_kept(name: str, place: Place, wanted: Document) -> Optional[str]:
    """What an instance gets in an update."""
    if place["request_digests"] is None:
        return None
    has, asked = place["request_digests"], digests(wanted)
    other = {part for part in KEPT if part in has and part in asked and has[part] != asked[part]}
    if "networks" in has and "networks" in asked and _other_addresses(place, wanted):
        other.add("networks")
    differing = [KEPT[part] for part in KEPT if part in other]
    group = (wanted.get("group") or {}).get("name")
    if "group" in wanted and place["group"] != clean_all(group):
        differing.append("server group %s" % (group or "(none)"))
    elif group and POLICY in has and has[POLICY] != asked.get(POLICY):
        differing.append("policy of server group %s" % group)
    if not differing:
        return None
    return "inventory says other %s. %s" % (_listed(differing), operation_hints.update_to_follow(name))


def _other_addresses(place: Place, wanted: Document) -> bool:
    """Whether a fixed address is missing or is not in the inventory. Any address from a pool is right."""
    has = [address for address in place["nics"] or () if address.startswith("address ")]
    asked = wanted.get("networks") or ()
    fixed = nics.taken([{**nic, "mac": None} for nic in asked if not nic.get("pool")])
    pooled = [nic for nic in asked if nic.get("pool")]
    return not set(clean_all(fixed)) <= set(has) or len(has) > len(fixed) + len(pooled)


def _listed(parts: List[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


# How the inventory differs from the volumes of an instance on its host, described for people.


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


# Which NICs of an existing instance have no packet filter though the inventory asks for one, described for people.
#
# Only an explicit request counts: security groups, or port_security: true. By default only new instances get filters.


def of_shown(name: str, has: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> Optional[str]:
    """As of_nics(); ``has``: the NICs of the instance as its host shows them."""
    return of_nics(name, [nic["mac"] for nic in has if nic["security_groups"] is None], wanted)


def of_nics(name: str, unfiltered: Collection[str], wanted: Iterable[Mapping[str, Any]]) -> Optional[str]:
    """What the NICs with the MAC addresses ``unfiltered`` of instance ``name`` lack by the request's NICs ``wanted``, and
    what helps."""
    return ". ".join(lack_and_hint(name, unfiltered, wanted) or ()) or None


def lack_and_hint(
    name: str, unfiltered: Collection[str], wanted: Iterable[Mapping[str, Any]]
) -> Optional[Tuple[str, str]]:
    """The same as (what they lack, what helps)."""
    lacking = [nic for nic in wanted if nic["mac"] in unfiltered and nic.get("security")]
    lacking = [nic for nic in lacking if nic.get("port_security") or nic["security"].get("groups")]
    if not lacking:
        return None
    groups = list(dict.fromkeys(group for nic in lacking for group in nic["security"].get("groups") or ()))
    text = "network interface %s has no packet filter" % ", ".join(nic["mac"] for nic in lacking)
    return (
        text + (", so it is not in " + ", ".join(groups) if groups else ""),
        packet_hints.filter_nics(name, all(nic.get("port_security") for nic in lacking)),
    )
