# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ImagePropertiesFilter."""

from __future__ import annotations

import re

from ...model.image import canonical_architecture, canonical_hv_type, canonical_vm_mode
from ..base import PASS, Filter, fail

# A version as Python's packages have it (PEP 440), without epoch: 8.2.1, 8.2rc1, 8.2.post1, 8.2.dev3.
_TERM = re.compile(
    r"\s*(<=|>=|<|>|!=|==)\s*v?(\d+(?:\.\d+)*)"
    r"([-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"([-_.]?(?:post|rev|r)[-_.]?\d*|-\d+)?([-_.]?dev[-_.]?\d*)?\s*\Z",
    re.ASCII | re.IGNORECASE,
)


class ImagePropertiesFilter(Filter):
    """A host passes when it can run what the image's properties ask for.

    One of its supported_instances [architecture, hypervisor type, vm mode] must contain all that are given of
    ``hw_architecture``, ``img_hv_type`` and ``hw_vm_mode``; then also ``img_hv_requested_version`` (such as
    ">=6.2,<9.0") must hold for its hypervisor version, and its CPU must have ``hw_maxphysaddr_bits`` where it says how
    many it has. An image that asks for none of the three passes everywhere.
    Options: image_properties_default_architecture (none): the architecture of images that name none.
    Aggregate metadata: none. Runs once per request, and on rebuild.
    Source: nova.scheduler.filters.image_props_filter.ImagePropertiesFilter.
    """

    run_filter_once_per_request = True
    reads = ("supported_instances", "hypervisor_version", "cpu_info")
    run_on_rebuild = True

    def about(self, spec):
        return None if self._wanted(spec.image_props) else ()

    def check(self, host_state, spec):
        props = spec.image_props
        wanted = self._wanted(props)
        if not wanted:
            return PASS
        if not any(all(name in supported for name in wanted) for supported in host_state.supported_instances):
            return fail("cannot run %s" % "/".join(wanted), wanted=wanted, supported=host_state.supported_instances)
        version = props.get("img_hv_requested_version")
        if version and host_state.hypervisor_version and not version_holds(version, host_state.hypervisor_version):
            return fail("hypervisor version %s is not %s" % (host_state.hypervisor_version, version), wanted=version)
        bits = props.get("hw_maxphysaddr_bits")
        have = host_state.capabilities.get("maxphysaddr", {}).get("bits") if bits else None
        if have and have < bits:
            return fail("has %s physical address bits, needs %s" % (have, bits), wanted=bits, have=have)
        return PASS

    def _wanted(self, props):
        wanted = (
            canonical_architecture(props.get("hw_architecture", self.options["image_properties_default_architecture"])),
            canonical_hv_type(props.get("img_hv_type")),
            canonical_vm_mode(props.get("hw_vm_mode")),
        )
        return [name for name in wanted if name]


def version_holds(predicate, version):
    """Whether a version 8002001 (8.2.1) satisfies terms such as ">=6.2,<9.0"; ValueError for invalid terms."""
    numbers = []
    while version:
        version, part = divmod(version, 1000)
        numbers.insert(0, part)
    for text in predicate.split(","):
        match = _TERM.match(text)
        if not match:
            raise ValueError("%r is not a comparison with a version" % text)
        operator, release, before, after, in_work = match.groups()
        other = [int(part) for part in release.split(".")]
        width = max(len(numbers), len(other))
        have, want = [parts + [0] * (width - len(parts)) for parts in (numbers, other)]
        # The host's version is a release: it is above what comes before that one, and below what comes after.
        want.append(-1 if before else 1 if after else -1 if in_work else 0)
        have.append(0)
        if not {
            "<": have < want,
            "<=": have <= want,
            ">": have > want,
            ">=": have >= want,
            "==": have == want,
            "!=": have != want,
        }[operator]:
            return False
    return True
