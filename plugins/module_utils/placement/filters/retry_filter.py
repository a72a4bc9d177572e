# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RetryFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class RetryFilter(Filter):
    """A host passes when this request was not tried on it before: it is not in the request's ``retry.hosts``.

    ``retry`` is {num_attempts, hosts: [[host, node] or host]}.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.retry_filter.RetryFilter, removed in Nova 22 (alternates took its place).
    """

    def about(self, spec):
        return None if (spec.document.get("retry") or {}).get("hosts") else ()

    def check(self, host_state, spec):
        tried = (spec.document.get("retry") or {}).get("hosts") or []
        here = (host_state.host, [host_state.host, host_state.nodename], (host_state.host, host_state.nodename))
        return fail("was tried before", attempts=len(tried)) if any(attempt in here for attempt in tried) else PASS
