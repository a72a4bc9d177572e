# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement of a run's instances: sends requests to the scheduler, puts its selections into the plan."""

from __future__ import annotations

import functools
import time
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Sequence

from ..model import fleet_hints, input_hints
from ..model.catalog import DEFAULT_ZONE, Catalog
from ..model.errors import together
from ..model.host_state import zones
from ..model.messages import Document
from ..model.unknown_names import meant, nearest
from ..placement import explain, receipt
from ..placement.changes.limits import refusals
from ..placement.changes.would_fit import fits_unignored, smallest_changes
from ..placement.scheduler import load, select_destinations
from ..placement.weighing import draws
from .fleet import Fleet
from .next_host import set_host
from .plan import CLAIMING, Instance, fail

SMALL = 5000  # up to this many hosts x instances, every decision is explained even if nobody asks
IGNORED, DO_NOT_IGNORE = "ignore_hosts: excluded by ignore_hosts", "do not ignore "
ADVISED = 3  # how many failed requests get advice; similar ones would get the same


def aggregates_of(catalog: Catalog, groups: Mapping[str, Iterable[str]], options: Document) -> List[Document]:
    """The aggregates as placement takes them. Raises what is wrong with them and with the options of placement, together."""
    documents: List[Document] = together([lambda: catalog.aggregate_documents(groups), lambda: load(options)])[0]
    return documents


class Decision:
    """What was decided, and everything that it was decided from. ``max_attempts`` comes from the options."""

    def __init__(self, fleet: Fleet, options: Document, aggregates: Iterable[Document], seed: int) -> None:
        self.fleet, self.aggregates, self.seed = fleet, list(aggregates), seed
        self.options = options
        complete = load(options)[2]
        self.draws = draws(complete)
        self.max_attempts, self.filters = complete["max_attempts"], complete["enabled_filters"]
        self.documents = list(fleet.documents.values())
        self.requests: List[Document] = []
        self.result: Any = None
        self.seconds = 0.0

    def run(self, requests: List[Document], explained: bool) -> List[Any]:
        started = time.monotonic()
        self.requests = requests
        self.result = select_destinations(
            self.documents, requests, self.options, self.aggregates, self.seed, explain=explained
        )
        self.seconds = time.monotonic() - started
        return self.result.requests

    def unexplained(self) -> str:
        """What put a host first, where no explanation was made."""
        return "drawn among the hosts that fit, seed %d" % self.seed if self.draws else "best of the hosts that fit"

    def explanation(self, moves: bool = False, may_stay: Optional[Mapping[str, str]] = None) -> str:
        """For each request the verdict on each host, and for a failed one the smallest change that would help.
        ``moves``: the request ignores the host that it leaves, and hosts that it must not go to. ``may_stay``: the instances
        that a switch would let stay where they are, with their hosts."""
        if not self.result:
            return ""
        text = "\n".join(
            explain.decision_text(explain.document(answer)) for answer in self.result.requests if answer.explanation
        )
        advice = self.advice()
        if moves:
            text = text.replace(IGNORED, "the instance is on it now, or berth_target_host names another host")
            advice = [line for line in advice if DO_NOT_IGNORE not in line] + self._staying(may_stay or {})
        return text + "\n".join(advice)

    def _staying(self, hosts: Mapping[str, str]) -> List[str]:
        """A line for each of those that failed and would fit on the host that it ignores because it is there."""
        lines = []
        for answer in self._to_advise():
            host = hosts.get(answer.spec.name)
            if host and fits_unignored(
                self.result.host_states, answer.spec.document, host, self.options, self.aggregates, self.seed
            ):
                stay = fleet_hints.resize_on_its_host(host)
                lines.append("%s would fit: %s" % (answer.spec.name, stay))
        return lines

    def _to_advise(self) -> List[Any]:
        return [answer for answer in self.result.requests if answer.error][:ADVISED]

    def advice(self) -> List[str]:
        lines: List[str] = []
        for answer in self._to_advise():
            changes = smallest_changes(
                self.result.host_states, [answer.spec.document], self.options, self.aggregates, self.seed
            )
            lines += ["%s would fit: %s" % (answer.spec.name, change.text) for change in changes]
            refused = refusals(answer.explanation) if answer.explanation else {}
            lacking = {rule for rules in refused.values() for rule, _verdict in rules}
            lines += [
                "%s: %s" % (answer.spec.name, what) for rule, what in fleet_hints.GIVE_HOSTS.items() if rule in lacking
            ]
        return lines

    def forced(self, instances: Dict[str, Instance]) -> List[str]:
        """A line for each instance that got its host without filters, as in Nova with force_hosts and force_nodes."""
        skipped = ", ".join(name.rpartition(".")[2] for name in map(str, self.filters)) or "none is enabled"
        return [
            "%s: its host %s is forced (berth_force_hosts, or a host in berth_availability_zone), so no filter was asked: %s. "
            "Its room is claimed all the same" % (name, instance["host"], skipped)
            for name, instance in sorted(instances.items())
            if instance.get("state") == CLAIMING
            and (instance["spec"].get("force_hosts") or instance["spec"].get("force_nodes"))
        ]

    def unread(self, instances: Dict[str, Instance]) -> List[str]:
        """A line for each scheduler hint of an instance that was placed, and that no enabled filter reads."""
        return [
            line
            for name, instance in sorted(instances.items())
            if instance.get("state") == CLAIMING
            for line in unread_hints(name, instance["spec"].get("scheduler_hints") or {}, self.filters)
        ]

    @functools.cached_property
    def texts(self) -> List[bytes]:
        """Each host's document as its digest in the receipt, and the receipt's file, have it."""
        return [receipt.canonical(document) for document in self.documents]

    def receipt(self) -> Optional[Document]:
        """The decision as one document that can be replayed offline, or None if nothing was placed."""
        if not self.result:
            return None
        return receipt.make(
            self.documents,
            self.requests,
            self.options,
            self.result,
            self.aggregates,
            left_out=self.fleet.verdicts,
            seconds=round(self.seconds, 6),
            texts=self.texts,
        )


def place(
    instances: Dict[str, Instance],
    fleet: Fleet,
    options: Document,
    aggregates: Iterable[Document] = (),
    *,
    seed: int,
    explained: bool = True,
) -> Decision:
    """Choose hosts for the instances without a state. Those of a batch (-e berth_count) all get a host, or none does.

    Without ``explained`` a large run keeps only the explanations of its failures.
    """
    decision = Decision(fleet, options, aggregates, seed)
    waiting = {instance["uuid"]: instance for instance in instances.values() if "state" not in instance}
    zone_of = zones(decision.aggregates)
    for instance in instances.values():
        if instance.get("state") == CLAIMING:  # an ended run had claimed it
            instance["zone"] = zone_of.get(str(instance["host"]), DEFAULT_ZONE)
    if not waiting:
        return decision
    explained = explained or len(waiting) * len(fleet.documents) <= SMALL
    for answer in decision.run([instance["spec"] for instance in waiting.values()], explained):
        instance = waiting[answer.spec.instance_uuids[0]]
        if answer.error:
            fail(instance, answer.error)
        else:
            selection = answer.selections[0].to_dict()
            for chosen in (selection, *selection["alternates"]):
                chosen["zone"] = zone_of.get(chosen["host"], DEFAULT_ZONE)
            set_host(instance, selection)
            instance["alternates"] = selection["alternates"]
            instance["state"] = CLAIMING
            instance["why"] = _why(answer, seed) if explained else decision.unexplained()
    return decision


def _why(answer: Any, seed: int) -> str:
    """One line on what put the chosen host first."""
    last = answer.explanation["instances"][-1]
    if len(last["order"]) < 2:
        return "the only host that fits"
    how = "seed %d" % seed if "drawn_among" in last else "weight %.2f" % last["weights"][last["host"]]
    return "%s hosts, %s" % (explain.choice(last), how)


# As in Nova a hint that no enabled filter reads changes nothing, but whoever gave it is told. A hint of any other name than
# these may be one that a filter of the user's own reads.
READ_BY = {
    "build_near_host_ip": "SimpleCIDRAffinityFilter",
    "cidr": "SimpleCIDRAffinityFilter",
    "different_host": "DifferentHostFilter",
    "query": "QueryFilter",
    "same_host": "SameHostFilter",
}
JSON_FILTER = "JsonFilter"  # it reads the same hint in Nova's form, [">=", "$free_ram_mb", 1024]


def unread_hints(name: str, hints: Mapping[str, Any], filters: Sequence[str]) -> List[str]:
    """A line for each hint of the instance ``name`` that does nothing. ``filters``: the names of those that are enabled."""
    enabled = {filter_name.rpartition(".")[2] for filter_name in map(str, filters)}
    every_one_is_known = not any(filter_name.count(".") for filter_name in map(str, filters))
    lines = []
    for hint in hints:
        reader, near = _reader(hint, hints[hint], enabled), nearest(hint, READ_BY)
        begin = "%s: berth_hints.%s does nothing: " % (name, hint)
        if reader and reader not in enabled:
            lines.append("%s%s reads it, which is not enabled. %s" % (begin, reader, input_hints.enable_filter(reader)))
        elif not reader and near and every_one_is_known:
            lines.append("%sno filter reads it. %s" % (begin, meant(near)))
    return lines


def _reader(hint: str, values: Any, enabled: Collection[str]) -> Optional[str]:
    in_novas_form = hint == "query" and (JSON_FILTER in enabled or str(values[0]).lstrip().startswith("["))
    return JSON_FILTER if in_novas_form else READ_BY.get(hint)
