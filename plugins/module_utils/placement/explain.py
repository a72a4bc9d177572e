# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why every host was or was not chosen, or none: as a document for programs, as text for people.

``document(request_result)`` makes the document of one request from its explanation; ``matrix(request_results)`` makes
that of a whole run in columns, from which ``documents(matrix)`` reads the same documents again;
``decision_text(document)`` is the text of one request; ``fleet_text(host documents)`` the table of a fleet. The text is
plain, in columns, and counts hosts beyond ``most`` by rule instead of listing them.
"""

from __future__ import annotations

import json
from collections import Counter

from ..model import line
from ..model.host_state import HostState
from ..model.line import LEFT_OUT, marked
from ..model.safe_text import visible
from .fast.matrix import Matrix
from .text import WIDTH, cut_if_many, number, plain, table

MOST_HOSTS = 40
WIDEST = 200  # characters of a number that a filter tells


def document(answer):
    """{name, hosts, error, candidates, instances} of a RequestResult that was explained, as plain JSON values.

    A verdict is {passed, reason, numbers}, or only {passed: true} if there is no more to say; ``candidates`` has for
    each host the list of rules [{rule, ...verdict}] that come before the filters; for ``instances`` see
    result.RequestResult.
    """
    return _document(_headlines(answer), answer.explanation or {})


def matrix(answers):
    """{hosts, columns, requests} of the RequestResults of one run: see matrix.py.

    A request is {name, hosts, error, entry}; one that the plain pipeline decided is its document().
    """
    records = [answer.record for answer in answers if answer.record]
    columns = records[0].recorder.matrix if records else Matrix([], [])
    return columns.to_document(
        [
            {**_headlines(answer), "entry": answer.record.entry} if answer.record else document(answer)
            for answer in answers
        ]
    )


def documents(found, names=None):
    """Yield the document() of every request of a matrix, or of those with these names."""
    columns = Matrix.from_document(found)
    for request in found["requests"]:
        if names is None or request["name"] in names:
            yield _document(request, columns.explanation(request["entry"])) if "entry" in request else request


def _headlines(answer):
    return {
        "name": answer.spec.name,
        "hosts": answer.hosts,
        "error": answer.error.to_dict() if answer.error else None,
    }


def _document(headlines, explanation):
    return {
        **{name: headlines[name] for name in ("name", "hosts", "error")},
        "candidates": {
            host: [{"rule": rule, **_verdict(verdict)} for rule, verdict in rules]
            for host, rules in (explanation.get("candidates") or {}).items()
        },
        "instances": [_instance(instance) for instance in explanation.get("instances") or ()],
    }


def _instance(instance):
    filters = [
        {**step, "verdicts": {host: _verdict(verdict) for host, verdict in step["verdicts"].items()}}
        for step in instance["filters"]
    ]
    return plain({**instance, "filters": filters})


def _verdict(verdict):
    shown = {"passed": bool(verdict.passed)}
    if verdict.reason:
        shown["reason"] = verdict.reason
    if verdict.numbers:
        shown["numbers"] = plain(verdict.numbers)
    return shown


def rejections(explained, at=-1):
    """{host: (rule, reason)}: the first rule that refused the host, for the instance ``at`` of a document()."""
    refused_by = {}
    for host, rules in explained["candidates"].items():
        for rule in rules:
            if not rule["passed"]:
                refused_by.setdefault(host, (rule["rule"], rule.get("reason", "")))
    for instance in explained["instances"][at:][:1]:
        for step in instance["filters"]:
            for host, verdict in step["verdicts"].items():
                if not verdict["passed"]:
                    refused_by.setdefault(host, (step["filter"], verdict.get("reason", "")))
        for claim in instance["claims"]:
            if not claim["passed"]:
                refused_by.setdefault(claim["host"], ("claim", claim["reason"]))
    return refused_by


def decision_text(explained, most=MOST_HOSTS):
    """The text of one document(): for each instance the choice, the outcome of each host, and the weights."""
    if not explained["instances"]:
        return "\n".join([_headline(explained, None), *_hosts(explained, 0, most)]) + "\n"
    parts = []
    for at, instance in enumerate(explained["instances"]):
        parts += [
            _headline(explained, instance),
            *_hosts(explained, at, most),
            *_weights(instance, most),
            *_told(instance, most),
            "",
        ]
    return "\n".join(parts)


def _headline(explained, instance):
    name = explained["name"]
    if instance is None or instance["host"] is None:
        message = (explained["error"] or {}).get("message") or "no host"
        return visible("%s: NO VALID HOST: %s" % (name, message))
    if len(explained["instances"]) > 1:
        name += " (%s)" % instance["uuid"]
    known = len(explained["candidates"]) or len(instance["hosts"])
    return visible("%s: %s, %s of %d hosts" % (name, instance["host"], choice(instance), known))


def choice(instance):
    """How the first host of an instance was chosen, and among how many: drawn among 3, the best of 3, the first of 3."""
    if "drawn_among" in instance:
        return "drawn among %d" % instance["drawn_among"]
    among = len(instance["order"])
    return "the %s of %d" % ("best" if instance["weighers"] or among < 2 else "first", among)


def host_rows(explained, at):
    """Return [(host, place, weight, why)] as text, for the instance ``at`` of a document(): the hosts in their order,
    then the refused ones with the rule."""
    instance = explained["instances"][at] if explained["instances"] else None
    refused = rejections(explained, at if explained["instances"] else -1)
    rows = []
    if instance:
        for place, host in enumerate(instance["order"], 1):
            note = "chosen" if host == instance["host"] else ""
            if not note and host in refused:
                note = "%s: %s" % refused[host]
            rows.append((host, "%d." % place, number(instance["weights"].get(host, 0.0)), note))
    ordered = {row[0] for row in rows}
    for host, (rule, reason) in refused.items():
        if host not in ordered:
            rows.append((host, "-", "", "%s: %s" % (rule, reason) if reason else rule))
    return rows


def _hosts(explained, at, most):
    """A line per host: its place in the order with its weight, or the rule that refused it."""
    rows = host_rows(explained, at)
    lines = table(("HOST", "PLACE", "WEIGHT", "WHY"), rows[:most])
    if len(rows) > most:
        refused = rejections(explained, at if explained["instances"] else -1)
        left_out = Counter(refused[row[0]][0] if row[0] in refused else "passed" for row in rows[most:])
        lines.append(
            "... and %d more: %s" % (len(rows) - most, ", ".join("%d %s" % (n, r) for r, n in left_out.items()))
        )
    return lines


def _weights(instance, most):
    """Return lines with raw > normalised x multiplier, for the weighers that distinguish the hosts."""
    telling = [weigher for weigher in instance["weighers"] if len(set(_points(weigher).values())) > 1]
    if not telling:
        return ["  every weigher says the same of all of them"] if instance["weighers"] else []
    hosts = instance["order"][:most]
    rows = [
        [host, *(_cell(weigher, host) for weigher in telling), number(instance["weights"].get(host, 0.0))]
        for host in hosts
    ]
    heads = [weigher["weigher"].replace("Weigher", "") for weigher in telling]
    return ["  weights, as raw > normalised x multiplier:", *table(["HOST", *heads, "SUM"], rows)]


def _told(instance, most):
    """Return what filters tell of hosts that pass, as DumpFilter does: the reason, and a row for each number."""
    lines = []
    for step in instance["filters"]:
        telling = [
            (host, verdict) for host, verdict in step["verdicts"].items() if verdict["passed"] and "reason" in verdict
        ]
        for host, verdict in telling[:most]:
            lines.append(visible("  %s of %s: %s" % (step["filter"], host, verdict["reason"])))
            rows = [(name, json.dumps(value)[:WIDEST]) for name, value in _flat(verdict.get("numbers") or {})]
            lines += table(("NUMBER", "VALUE"), rows, "    ") if rows else []
    return lines


def _flat(numbers):
    for part, value in numbers.items():
        yield from (
            (("%s.%s" % (part, name), each) for name, each in value.items())
            if isinstance(value, dict)
            else [(part, value)]
        )


def _points(weigher):
    return {host: weigher["normalised"][host] * weigher["multiplier"][host] for host in weigher["normalised"]}


def _cell(weigher, host):
    return "%s > %s x %s" % tuple(number(weigher[part].get(host)) for part in ("raw", "normalised", "multiplier"))


def fleet_text(documents, verdicts=None):
    """The fleet as a table: what is used or reserved of all, ratios and state; ``verdicts`` {host: why it is left out} come last."""
    return "\n".join(fleet_lines(documents, verdicts)) + "\n"


def fleet_lines(documents, verdicts=None, width=WIDTH):
    rows = [
        _fleet_row(host_document)
        for host_document in sorted(documents, key=lambda host_document: host_document["host"])
    ]
    silent = [(host, "", "", "", "", "", reason) for host, reason in sorted((verdicts or {}).items())]
    heads = ("HOST", "VCPUS USED", "MEMORY MiB USED", "DISK GiB USED", "INSTANCES", "IO OPS", "STATE")
    lines = table(heads, rows + silent)
    return lines[: 1 + len(rows)] + marked(LEFT_OUT, cut_if_many(lines[1 + len(rows) :], width))


def _fleet_row(host_document):
    state = HostState.from_document(host_document)
    total_mb, total_gb = state.total_usable_ram_mb, state.total_usable_disk_gb
    instances = str(state.num_instances)
    foreign = sum(1 for instance in state.instances.values() if instance.get("foreign"))
    if foreign:
        instances += " (%d foreign)" % foreign
    return (
        state.host,
        _used(state.vcpus_used, state.vcpus_total, state.cpu_allocation_ratio),
        _used(total_mb - state.free_ram_mb, total_mb, state.ram_allocation_ratio),
        _used(total_gb - state.free_disk_mb / 1024, total_gb, state.disk_allocation_ratio),
        instances,
        str(state.num_io_ops),
        ", ".join(filter(None, (_service(state), line.described(host_document)))),
    )


def _used(used, total, ratio):
    return "%s of %s x %s" % (number(used), number(total), number(ratio))


def _service(state):
    if state.service.get("disabled"):
        return "disabled: %s" % (state.service.get("disabled_reason") or "no reason given")
    return "up" if state.service_up else "down"


def host_line(host_document):
    """One host state document on one line, as Nova prints a HostState."""
    return visible(repr(HostState.from_document(host_document)))


def no_valid_host(spec, index, candidates, passing):
    """Return why instance ``index`` has no valid host; ``candidates`` and ``passing``: whether any host got so far."""
    if not candidates:
        return "no valid host was found for %s: no host has what it requests" % spec.name
    nth = "instance %d of %d" % (index + 1, spec.num_instances)
    if passing:
        return "no host can take %s of %s: every claim failed" % (nth, spec.name)
    return "no valid host was found for %s%s" % (spec.name, " (%s)" % nth if spec.num_instances > 1 else "")
