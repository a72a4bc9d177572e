# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image properties of a request, and the extra specs of a flavor: their valid values, and what happens with each."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple, Union

from .errors import BerthError, InvalidInput
from .image import CANONICAL, LEGACY_NAMES
from .image_properties import ANY, FLAG, NEVER, PLACEMENT, PROPERTIES, TRUTH, UNLESS_NO, YES, Built, Fate, Refused
from .unknown_names import did_you_mean

Property = Union[str, List[str]]

_IMAGE_PER_CELL = re.compile(r"hw_numa_(cpus|mem)\.[0-9]+\Z", re.ASCII)
_OURS = re.compile(r"(hw|img|os)_")


class InvalidImageProperty(BerthError):
    """An image property does not exist, or its value is not allowed (Nova: InvalidRequest)."""


class ImageProperties:
    """Check the ``properties`` of an image: every value becomes text, as in Glance, and a list of texts stays a list.
    Properties outside hw_*, img_* and os_* are the user's own and are kept.
    """

    def check(self, value: Any, field: str) -> Dict[str, Property]:
        if not isinstance(value, dict):
            raise InvalidImageProperty("%s: must be a mapping of names to values" % field, field=field)
        return {str(name): check_property(str(name), part, "%s.%s" % (field, name)) for name, part in value.items()}


def check_property(name: str, value: Any, field: str) -> Property:
    """Return the value of one property as text; InvalidImageProperty if there is no such property or value."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
        return [str(text) for text in value]
    if not isinstance(value, (str, int, float)) or len(str(value)) > 255:
        raise _refused(field, value, "text of at most 255 characters, a number, true/false or a list of texts")
    text = str(value)
    row = PROPERTIES.get(LEGACY_NAMES.get(name, name))
    kind = row.read_as if row else ""
    if kind in CANONICAL:
        try:
            return CANONICAL[kind](text)
        except InvalidInput as error:
            raise _refused(field, value, error.rule)
    if row and row.words:
        if text.lower() not in row.words:
            raise _refused(field, value, "one of " + ", ".join(row.words), did_you_mean(text, row.words))
        return text.lower()
    if kind == "whole" and not re.match(r"[0-9]{1,9}\Z", text):
        raise _refused(field, value, "a whole number, not negative")
    if kind == "flag" and text.lower() not in TRUTH:
        raise _refused(field, value, "true or false")
    known = {own for own, row in PROPERTIES.items() if row.kind}
    if name not in known and _OURS.match(name) and not _IMAGE_PER_CELL.match(name):
        raise _refused(field, value, "a property that exists", did_you_mean(name, known))
    return text


def _refused(field: str, value: Any, rule: Optional[str], hint: Optional[str] = None) -> InvalidImageProperty:
    shown = repr(value)[:120]
    return InvalidImageProperty("%s: %s is not valid" % (field, shown), field=field, value=shown, rule=rule, hint=hint)


def _table(*parts: Tuple[Fate, str]) -> Dict[str, Fate]:
    """Return {name: fate} of (fate, "names separated by spaces") ...; a name that is in two parts is a mistake."""
    table: Dict[str, Fate] = {}
    for fate, names in parts:
        for name in names.split():
            if name in table:
                raise ValueError("%s is in the table twice" % name)
            table[name] = fate
    return table


# Extra specs that no image property is called like.
_ALONE = _table(
    (Built("isolate"), "hw:emulator_threads_policy"),
    (Built("full", "overlay", "raw"), "berth:root_disk"),
    (FLAG, "hw:cpu_realtime"),
    (ANY, "hw:cpu_dedicated_mask pci_passthrough:alias"),
    (UNLESS_NO, "hw:hide_hypervisor_id hide_hypervisor_id"),
    (
        NEVER,
        "hw:pmem hw:tpm_secret_security hw_rng:rate_bytes hw_rng:rate_period hw_video:ram_max_mb "
        "accel:device_profile quota:cpu_limit quota:cpu_period quota:cpu_quota quota:cpu_reservation "
        "quota:cpu_shares quota:cpu_shares_level quota:cpu_shares_share quota:disk_io_limit "
        "quota:disk_io_reservation quota:disk_io_shares_level quota:disk_io_shares_share "
        "quota:disk_read_bytes_sec quota:disk_read_iops_sec quota:disk_total_bytes_sec "
        "quota:disk_total_bytes_sec_max quota:disk_total_iops_sec quota:disk_total_iops_sec_max "
        "quota:disk_write_bytes_sec quota:disk_write_iops_sec quota:memory_limit quota:memory_reservation "
        "quota:memory_shares_level quota:memory_shares_share quota:vif_inbound_average quota:vif_inbound_burst "
        "quota:vif_inbound_peak quota:vif_limit quota:vif_outbound_average quota:vif_outbound_burst "
        "quota:vif_outbound_peak quota:vif_reservation quota:vif_shares_level quota:vif_shares_share",
    ),
    (Refused(*YES), "hw_rng:allowed"),
    (PLACEMENT, "group_policy"),
)

# In these scopes an extra spec that is not in the table is a mistake; in others it is the user's own.
OUR_SCOPES = frozenset(("accel", "berth", "hw", "hw_rng", "hw_video", "os", "pci_passthrough", "quota"))
_PER_CELL = re.compile(r"(hw[:_]numa_(?:cpus|mem))\.[0-9]+\Z", re.ASCII)


def extra_specs() -> Dict[str, Fate]:
    """Return {extra spec: fate} of all that Nova knows, and ours."""
    twins = {name.replace("_", ":", 1): row.fate for name, row in PROPERTIES.items() if row.spec}
    return {**twins, **_ALONE}


def image_fates() -> Dict[str, Fate]:
    return {name: row.fate for name, row in PROPERTIES.items()}


def image_fate(name: str) -> Optional[Fate]:
    """Return the fate of an image property by its current name; None if Nova does not know it."""
    if name.startswith("trait:"):
        return PLACEMENT
    return image_fates().get(_PER_CELL.sub(r"\1", name))


def flavor_fate(name: str) -> Optional[Fate]:
    """Return the fate of an extra spec; None if it is in one of our scopes and does not exist."""
    fate = extra_specs().get(_PER_CELL.sub(r"\1", name))
    if fate is None and name.partition(":")[0] not in OUR_SCOPES:
        return PLACEMENT
    return fate
