# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter to copy: replace the class name, the option, the docstring and the rule."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.placement.base import PASS, Filter, fail


class FreeMemoryLeftFilter(Filter):
    """Passes hosts that keep ``free_memory_left_mb`` MiB (0) free after the instance is placed."""

    # Every option with its default; a user sets it in berth_placement.
    options = {"free_memory_left_mb": 0}

    def check(self, host_state, spec):
        wanted = self.options["free_memory_left_mb"]
        left = host_state.free_ram_mb - spec.memory_mb
        if left >= wanted:
            return PASS
        return fail("would keep %d MiB free, %d are wanted" % (left, wanted), left_mb=left, wanted_mb=wanted)
