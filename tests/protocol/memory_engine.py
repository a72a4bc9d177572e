# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine of the registry in memory, with etcd's semantics; test_etcd.py holds it to them.

What goes wrong is asked for: ``away`` (no majority: nothing is done, nothing known), ``lose`` (the next so many writes are
done and their answers lost, or neither), a copy of ``state`` as a backup, and its restore.
"""

from __future__ import annotations

import copy

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Found
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.keys import FACTS


class MemoryEngine:
    def __init__(self):
        self.keys, self.revision, self.cluster = {}, 1, "17"
        self.away = False
        self.lost = []  # of the next writes: True if it is done although its answer is lost, False if it never came

    def lose(self, *done):
        self.lost += done

    def transact(self, step):
        self._answers()
        lost = self.lost.pop(0) if step.writes and self.lost else None
        succeeded = lost is not False and all(map(self._is_so, step.compare))
        if succeeded and step.writes:
            self._write(step.writes)
        if lost is not None:
            raise RegistryUnknown("The answer of the registry is missing")
        found = {key: self.keys[key] for key in step.reads if key in self.keys}
        return {"succeeded": succeeded, "revision": self.revision, "cluster": self.cluster, "found": found}

    def scan(self, step):
        self._answers()
        found = {
            key: found
            for key, found in sorted(self.keys.items())
            if key.startswith(step.prefix) and found.revision > step.since
        }
        return {"succeeded": True, "revision": self.revision, "cluster": self.cluster, "found": found}

    def backup(self):
        return copy.copy(self.keys), self.revision

    def restore(self, backup):
        """What was written since is gone, and its revisions are given again."""
        self.keys, self.revision = copy.copy(backup[0]), backup[1]

    def _answers(self):
        if self.away:
            raise RegistryUnknown("No member of the registry answers, or no majority of them is there")

    def _is_so(self, compare):
        found = self.keys.get(compare.key)
        if compare.value is not None:
            return found is not None and found.value == compare.value
        return (found.revision if found else 0) == compare.revision

    def _write(self, writes):
        """All have one revision. A key that is not there is removed without one."""
        keys = [write.key for write in writes]
        assert len(set(keys)) == len(keys), "etcd refuses a key that is written twice in one transaction"
        if all(write.value is None and write.key not in self.keys for write in writes):
            return
        self.revision += 1
        for write in writes:
            if write.value is None:
                self.keys.pop(write.key, None)
            else:
                sealed = write.key.startswith(FACTS)
                self.keys[write.key] = Found(bytes(write.value), self.revision, sealed)
