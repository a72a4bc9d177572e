# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ComputeFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class ComputeFilter(Filter):
    """A host passes when it is enabled and answers: not ``disabled``, not ``forced_down``, and ``up``.

    Nova asks whether the heartbeat of nova-compute is younger than service_down_time; here ``up`` says whether the host
    answered when its facts were gathered.
    Options: none. Aggregate metadata: none. Runs once per request.
    Source: nova.scheduler.filters.compute_filter.ComputeFilter.
    """

    run_filter_once_per_request = True
    reads = ("service",)

    def check(self, host_state, spec):
        service = host_state.service
        if service.get("disabled"):
            return fail("is disabled: %s" % (service.get("disabled_reason") or "no reason given"), disabled=True)
        if not host_state.service_up:
            return fail("does not answer", up=False, forced_down=bool(service.get("forced_down")))
        return PASS
