# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BuildFailureWeigher."""

from __future__ import annotations

from ..base import Weigher


class BuildFailureWeigher(Weigher):
    """Avoids hosts where builds failed lately; the multiplier is negated.

    The count halves with each hour of the host's uptime; a build that works there sets it to 0, and so does
    ``berth.kvm.prepare_hosts --limit HOST -e kvm_host_forget_failed_builds=true`` on a host that was repaired.

    Normalised from the smallest to the largest.
    Options: build_failure_weight_multiplier (1000000.0).
    Aggregate metadata: build_failure_weight_multiplier.

    Source: nova.scheduler.weights.compute.BuildFailureWeigher.
    """

    multiplier_option = "build_failure_weight_multiplier"
    sign = -1

    def raw(self, host_state, spec):
        return host_state.failed_builds
