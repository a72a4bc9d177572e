# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of placement: selections, and why."""

from __future__ import annotations

import copy


class Selection:
    """The host chosen for one instance: {uuid, name, host, host_uuid, alternates, allocation, limits}.

    An alternate is {host, host_uuid, allocation, limits}. An allocation is {vcpus, pcpus, memory_mb (MiB), disk_gb (GiB),
    resources, numa_topology, pci_devices}.
    """

    __slots__ = ("uuid", "name", "host", "nodename", "host_uuid", "alternates", "allocation", "limits")

    def __init__(self, uuid, name, host_state, allocation, limits):
        self.uuid, self.name = uuid, name
        self.host, self.nodename, self.host_uuid = host_state.host, host_state.nodename, host_state.uuid
        self.allocation, self.limits, self.alternates = allocation, limits, []

    @property
    def key(self):
        return self.host if self.host == self.nodename else "%s|%s" % (self.host, self.nodename)

    def to_dict(self):
        return {
            "uuid": self.uuid,
            "name": self.name,
            "host": self.host,
            "host_uuid": self.host_uuid,
            "alternates": copy.deepcopy(self.alternates),
            "allocation": copy.deepcopy(self.allocation),
            "limits": copy.deepcopy(self.limits),
        }


class RequestResult:
    """The answer to one request: ``selections`` (one per instance, [] with an error), ``error`` (NoValidHost or None).

    ``explanation`` is None if none was requested, else
    {"candidates": {host: [(rule, Verdict)]},
     "instances": [{"uuid", "hosts": [host], "filters": [{"filter", "skipped", "verdicts": {host: Verdict}}],
                    "weighers": [{"weigher", "raw": {host: x}, "normalised": {host: x}, "multiplier": {host: x}}],
                    "weights": {host: sum}, "order": [host], "claims": [{"host", "passed", "reason"}], "host": host or None,
                    "drawn_among": how many hosts could have come first, only if lots were drawn}]}
    where "instances" may be any sequence (matrix.Instances makes its items one by one).
    """

    def __init__(self, spec, selections=(), error=None, explain=None):
        self.spec = spec
        self.selections = list(selections)
        self.error = error
        self._explain = explain
        # The compact form (recorder.RequestRecord) if the fast pipeline decided.
        self.record = explain if callable(explain) else None

    @property
    def explanation(self):
        """Computed when it is first read."""
        if callable(self._explain):
            self._explain = self._explain()
        return self._explain

    @property
    def hosts(self):
        """The chosen hosts in order, [] for no valid host."""
        return [selection.key for selection in self.selections]


class Result:
    """The answers to all requests in their order, and the host states that result from them."""

    def __init__(self, requests, host_states, seed):
        self.requests = requests
        self._host_states = host_states
        self.seed = seed

    @property
    def host_states(self):
        if callable(self._host_states):
            self._host_states = self._host_states()
        return self._host_states

    @property
    def selections(self):
        return [request.selections for request in self.requests]

    @property
    def errors(self):
        return [request.error for request in self.requests if request.error is not None]
