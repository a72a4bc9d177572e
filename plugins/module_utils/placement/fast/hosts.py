# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of one run of the fast pipeline: states made when they are first needed, and columns of what is weighed."""

from __future__ import annotations

from ...model.host_state import HostState
from .. import networks_and_pools
from . import columns

# Placement's resource classes and where the documents of hosts count their use.
USED_FIELDS = {
    "VCPU": "vcpus_used",
    "PCPU": "pcpus_used",
    "MEMORY_MB": "memory_mb_used",
    "DISK_GB": "local_gb_used",
}


def instance_hosts(hosts):
    """{instance uuid: host name} of documents or states."""
    return {
        uuid: host.host if isinstance(host, HostState) else host["host"]
        for host in hosts
        for uuid in (
            host.instances if isinstance(host, HostState) else [each["uuid"] for each in host.get("instances") or ()]
        )
    }


class Hosts:
    """Host documents (or states, which are copied) and their changes; ``changes``: indexes of hosts in order."""

    def __init__(self, given, aggregates):
        self.given = given
        self.states = [host.copy() if isinstance(host, HostState) else None for host in given]
        self.documents = None if given and isinstance(given[0], HostState) else given
        self.of_host = {}
        for aggregate in aggregates:
            for host in aggregate.hosts:
                self.of_host.setdefault(host, []).append(aggregate)
        for host_state in self.states if self.of_host else ():
            if host_state is not None:
                host_state.aggregates = self.of_host.get(host_state.host, [])
        self.changes = []
        self.columns = {}  # {name of the weigher: (weigher, values)}
        self.fixed = {}  # {name of the weigher: values} that no decision changes
        self._usual = None
        self._indexes = None
        self._named = None
        self._spelled = None
        self._apart = {}  # {pool: count_disks_apart()}

    def __len__(self):
        return len(self.given)

    def state(self, index):
        host_state = self.states[index]
        if host_state is None:
            host_state = self.states[index] = HostState.from_document(self.given[index])
            if self.of_host:
                host_state.aggregates = self.of_host.get(host_state.host, [])
        return host_state

    def all_states(self):
        for index, host_state in enumerate(self.states):
            if host_state is None:
                self.state(index)
        return self.states

    def count_disks_apart(self, spec):
        """Whether on some host the disks of this request count as another resource class than DISK_GB."""
        if spec.pool not in self._apart:
            documents = self.documents or [host_state.document for host_state in self.states]
            self._apart[spec.pool] = bool(spec.pool) and any(
                networks_and_pools.counts_elsewhere(document, spec) for document in documents
            )
        return self._apart[spec.pool]

    # -- who and where
    def keys(self):
        """Return the names of all hosts in results (HostState.key)."""
        if not self.documents:
            return [host_state.key for host_state in self.states]
        return [
            document["host"] if document.get("node") in (None, document["host"]) else self.state(index).key
            for index, document in enumerate(self.documents)
        ]

    @property
    def named(self):
        """{host name: [indexes]}."""
        if self._named is None:
            self._named = {}
            for index, host in enumerate(self.given):
                self._named.setdefault(host["host"] if self.documents else host.host, []).append(index)
        return self._named

    def spelled(self, name):
        """Return the indexes of the hosts with this name, in any case."""
        if self._spelled is None:
            self._spelled = {}
            for each, indexes in self.named.items():
                self._spelled.setdefault(each.lower(), []).extend(indexes)
        return self._spelled.get(name.lower(), [])

    @property
    def of_instance(self):
        """{instance uuid: [indexes of the hosts that have it]}."""
        if self._indexes is None:
            self._indexes = {}
            for index, host in enumerate(self.given):
                made = self.states[index]
                uuids = made.instances if made is not None else [each["uuid"] for each in host.get("instances") or ()]
                for uuid in uuids:
                    self._indexes.setdefault(uuid, []).append(index)
        return self._indexes

    def note(self, uuid, index):
        """Note that a host has got an instance."""
        if self._indexes is not None and index not in self._indexes.setdefault(uuid, []):
            self._indexes[uuid].append(index)

    def having(self, uuids):
        """Return the indexes of the hosts that have at least one of the instances."""
        return {index for uuid in uuids for index in self.of_instance.get(uuid, ())}

    # -- columns
    def column(self, weigher):
        """Return the clamped raw weights of all hosts by a weigher of columns.READERS; changes of hosts update them."""
        known = self.columns.get(weigher.name)
        if known is not None:
            return known[1]
        if weigher.name in self.fixed:
            return self.fixed[weigher.name]
        if self.documents:
            if self._usual is None:
                self._usual = columns.usual(self.documents)
            values = columns.column(weigher, self.documents, self._usual)
        else:
            values = weigher.weigh(self.states, None)
        if columns.never_changes(weigher, values):
            self.fixed[weigher.name] = values
            return values
        for index in self.changes:
            values[index] = _clamped(weigher, self.states[index])
        self.columns[weigher.name] = (weigher, values)
        return values

    def used(self, name):
        """Return what instances use of a resource class, for all hosts."""
        field = USED_FIELDS.get(name)
        if not self.documents or not field or any("placement_used" in document for document in self.documents):
            return [host_state.used.get(name, 0) for host_state in self.all_states()]
        values = [document.get(field, 0) for document in self.documents]
        for index in self.changes:
            values[index] = self.states[index].used.get(name, 0)
        return values

    def multipliers(self, weigher):
        """Return the weigher's multiplier: one number, or a list with one per host if aggregates override it."""
        key = weigher.multiplier_key or weigher.multiplier_option
        if any(key in aggregate.metadata for found in self.of_host.values() for aggregate in found):
            return [weigher.multiplier(host_state) for host_state in self.all_states()]
        return weigher.sign * weigher.configured() if weigher.multiplier_option else 1.0

    # -- changes
    def changed(self, index):
        """Note that the state of a host has changed, and update the columns."""
        self.changes.append(index)
        state = self.states[index]
        for weigher, values in self.columns.values():
            values[index] = _clamped(weigher, state)

    def put_back(self, saved):
        """Restore states to {index: attributes}."""
        for index, attributes in saved.items():
            state = self.states[index]
            for uuid in set(state.instances) - set(attributes["instances"]) if self._indexes is not None else ():
                self._indexes[uuid].remove(index)
            state.__dict__.clear()
            state.__dict__.update(attributes)


def _clamped(weigher, state):
    raw = weigher.raw(state, None)
    return raw if weigher.minval is None or raw > weigher.minval else weigher.minval
