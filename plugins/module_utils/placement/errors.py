# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of placement."""

from __future__ import annotations

from ..model.errors import BerthError, InvalidInput


class NoValidHost(BerthError):
    """No host can take the request."""


class ClaimFailed(BerthError):
    """The host cannot take this instance now; another may. ``shortfalls`` lists what is missing, with numbers."""

    retryable = True

    def __init__(self, host, shortfalls):
        self.shortfalls = shortfalls
        super().__init__(
            "%s: %s" % (host, "; ".join(shortfall["reason"] for shortfall in shortfalls)),
            host=host,
            shortfalls=shortfalls,
        )


class SchedulerHostFilterNotFound(InvalidInput):
    """enabled_filters or available_filters names filters that do not exist, or enabled_filters some that available_filters
    leaves out; the error lists all of them (Nova's error of this name)."""


class SchedulerWeigherNotFound(InvalidInput):
    """weight_classes names weighers that do not exist; the error lists all of them."""


class UnsupportedPolicy(BerthError):
    """The filter or weigher of the server group's policy is not enabled (Nova: UnsupportedPolicyException)."""


class FilterRemoved(InvalidInput):
    """Nova once had this filter. It cannot work here."""


class DriverRemoved(InvalidInput):
    """Nova once had this scheduler driver. Here it would do nothing of its own."""


class PluginFailed(InvalidInput):
    """A filter or weigher exists but cannot be imported or instantiated. The error names it and the cause."""


class UnknownOption(InvalidInput):
    """Placement does not have these options; the error lists all of them."""


class MaxRetriesExceeded(BerthError):
    """Every attempt that max_attempts allows has failed; ``attempts`` has the cause of each."""
