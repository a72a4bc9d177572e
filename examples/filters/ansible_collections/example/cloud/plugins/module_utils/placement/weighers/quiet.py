# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A weigher to copy: replace the class name, the option, the docstring and the number."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Weigher


class QuietHostWeigher(Weigher):
    """Prefers hosts with fewer instances; ``quiet_host_weight_multiplier`` (1.0) says how strongly."""

    multiplier_option = "quiet_host_weight_multiplier"
    options = {"quiet_host_weight_multiplier": 1.0}

    def raw(self, host_state, spec):
        return -host_state.num_instances
