# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TypeAffinityFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class TypeAffinityFilter(Filter):
    """A host passes when every instance on it is of the flavor that is asked for.

    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.type_filter.TypeAffinityFilter, removed in Nova 17.
    """

    def check(self, host_state, spec):
        others = {(instance.get("flavor") or {}).get("name") for instance in host_state.instances.values()} - {
            spec.flavor.name
        }
        others = sorted(str(name) for name in others)
        return fail("has instances of flavor %s" % ", ".join(others), flavors=others) if others else PASS
