# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action ask_fleet: see plugins/modules/ask_fleet.py for its documentation."""

from __future__ import annotations

import functools
import math
from typing import Sequence, Tuple
from xml.etree import ElementTree

from ..module_utils.conductor import silence
from ..module_utils.conductor.errors import KvmHostNotFound
from ..module_utils.fleet import assertions, make_plan, plan_file, questions
from ..module_utils.fleet.check import check
from ..module_utils.fleet.goals import DRAIN, Goal
from ..module_utils.fleet.questions import movability, with_more
from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import InvalidInput, joined, together
from ..module_utils.model.schema import Whole
from ..module_utils.placement.text import table
from ..plugin_utils import fleet_options, planned_lines
from ..plugin_utils.berth_name import is_only_requested
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.documents import check_replaceable, read_yaml, write_named
from ..plugin_utils.inventory_variables import kvm_hosts, listed
from ..plugin_utils.known_fleet import known_fleet
from ..plugin_utils.plain import number, plain
from ..plugin_utils.screen import say, warn
from ..plugin_utils.selection import not_found, selected

HEAD = b'<testsuite name="berth.kvm '
MOST_BYTES = 1 << 24
MOST_SETS = 5000  # of hosts that fail at once: some minutes


class ActionModule(ControllerAction):
    argument_spec = documented("ask_fleet")

    def reported(self, result):
        return None if self._task.args.get("away") else {"answer": result["answer"]}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        args.update({option: listed(args, option) for option in ("gone", "like")})
        _check_hosts(args, hosts)
        only = _only(args, task_vars, hosts)
        entries = _assertions(args) if args["question"] == "assert" else []
        kept_free = Whole(0, len(hosts)).check(number(args["kept_free"]), "berth_kept_free")
        failures = fleet_options.whole("berth_failures", args["failures"], 1)
        Whole(0 if args["away"] else 1, 3).check(failures, "berth_failures")
        known = known_fleet(self, task_vars, hosts)
        for field, number_of in _failures(args, entries, failures):
            _check_not_too_many(len(known.fleet.documents) + len(args["like"]), number_of, field)
        if args["question"] == "capacity":
            answer, lines = _capacity(known, known.fleet, kept_free)
        elif args["question"] == "movability":
            cold = known_fleet(self, task_vars, hosts, "cold").fleet
            found = movability(known.fleet, cold)
            answer, lines = _movability(found if only is None else [each for each in found if each.name in only])
            missing = [name for name in only or () if name not in answer]
            unknown = [name for name in missing if is_only_requested(task_vars, name)]
            if unknown and not known.reported.verdicts:
                raise joined(not_found(task_vars, known.reported, name) for name in unknown)
            lines += ["%s is on no host that answers" % name for name in missing]
        elif args["question"] == "what_if":
            answer, lines = _what_if(known, list(dict.fromkeys(args["gone"])), args["like"], failures)
        elif args["question"] == "assert":
            answer, lines = _asserted(known, entries)
        else:
            answer, lines = _survive(known.fleet, failures, args["away"])
        left_out = ["%s is not counted: %s" % told for told in sorted(known.reported.verdicts.items())]
        if lines:
            say("", *lines, *left_out, "")
        wrong = [each["name"] for each in answer if not each["holds"]] if args["question"] == "assert" else []
        if args["junit"] and args["question"] == "assert" and not self._task.check_mode:
            results = junit("placement", [(each["name"], each["why"]) for each in answer])
            write_named(args["junit"], results, "berth_junit")
        failed = {"failed": True, "msg": "%s: see above" % ", ".join(wrong)} if wrong else {}
        return {"answer": answer, **failed}


def _check_hosts(args, hosts):
    for option, variable in (("gone", "berth_hosts_gone"), ("like", "berth_hosts_like")):
        for host in args[option]:
            if host not in hosts:
                raise KvmHostNotFound.of(variable, host, hosts)
    if args["question"] == "what_if" and not args["gone"] and not args["like"]:
        raise InvalidInput("berth_hosts_gone", None, "names of KVM hosts", hint=fleet_hints.give_hosts_of_question())


def _only(args, task_vars, hosts):
    """The names of the instances that the answer is about, None for all."""
    if args["about"] is None:
        return None
    if args["question"] == "movability":
        return selected(task_vars, args["about"], hosts)
    if not args["away"]:
        warn("%s is about the whole fleet, also with a selection" % args["question"])
    return None


def _assertions(args):
    path, rule = args["assertions"], "a file with a list of assertions"
    if not path:
        raise InvalidInput(assertions.FIELD, None, rule, hint=fleet_hints.write_assertions())
    read = functools.partial(read_yaml, path, assertions.FIELD, rule, MOST_BYTES)
    return together([lambda: assertions.read(read(), path), functools.partial(_check_junit, args["junit"])])[0]


def _check_junit(path):
    if path:
        check_replaceable(
            path,
            "berth_junit",
            path,
            lambda file: file.read(len(HEAD)) == HEAD,
            "a file that is not there yet, or another result of assertions",
        )


def _failures(args, entries, failures):
    """(the field that says so, how many hosts are to fail at once) of what is asked."""
    if args["question"] in ("survive", "what_if"):
        yield "berth_failures", failures
    for entry in entries:
        if "survive" in entry:
            yield "%s: %s" % (assertions.FIELD, entry["name"]), entry["survive"]


def _check_not_too_many(hosts, failures, field="berth_failures"):
    most = max((number for number in range(1, failures) if math.comb(hosts, number) <= MOST_SETS), default=1)
    if failures > most and math.comb(hosts, failures) > MOST_SETS:
        rule = "at most %d with %d hosts, as each set of so many hosts is tried" % (most, hosts)
        raise InvalidInput(field, failures, rule)


def _capacity(known, fleet, kept_free, gone=()):
    """How many more of each flavor of the catalog fit, were they the only ones that are created."""
    answer, rows, why = {}, [], []
    flavors = [flavor for _name, flavor in sorted(known.flavors.items())]
    for name, found in questions.of_flavors(fleet, flavors, kept_free, gone).items():
        answer[name] = {"count": found.count, "hosts": found.of_host, "limited": found.limited}
        taken = sorted(found.of_host, key=lambda host: found.of_host[host])[: len(found.of_host) - kept_free]
        where = ", ".join("%d on %s" % (found.of_host[host], host) for host in sorted(taken) if found.of_host[host])
        rows.append((name, str(found.count), where or "nowhere"))
        why += ["%s, not one more: %s" % (name, reason) for _host, reason in sorted(found.limited.items())]
    free = ", with %d host%s kept free" % (kept_free, "s" * (kept_free > 1)) if kept_free else ""
    return answer, ["how many more fit of each flavor alone%s:" % free, *table(("FLAVOR", "MORE", "WHERE"), rows), *why]


def _movability(found):
    answer, rows, why = {}, [], []
    for each in found:
        answer[each.name] = {part: getattr(each, part) for part in ("host", "how", "to", "reasons")}
        rows.append((each.name, each.host, each.how, ", ".join(each.to) or "nowhere"))
        for reason, hosts in sorted(each.reasons.items()):
            where = "anywhere" if not each.to and len(each.reasons) == 1 else "to " + ", ".join(hosts)
            why.append("%s, not %s: %s" % (each.name, where, reason))
    return answer, [*table(("INSTANCE", "ON", "MOVES", "TO"), rows), *why]


def _what_if(known, gone, like, failures):
    """The answers of survive and capacity, today and then."""
    for field, hosts in (("berth_hosts_gone", gone), ("berth_hosts_like", like)):
        for host in sorted(set(hosts) - set(known.fleet.documents)):
            raise InvalidInput(field, host, "a host that answers: it says what it has")
    then = with_more(known.fleet, like)
    homeless = questions.without_place(then, gone) if gone else []
    answer, rows, lines = {"without_place": homeless, "capacity": {}}, [], []
    today, later = (_capacity(known, *each)[0] for each in ((known.fleet, 0), (then, 0, gone)))
    for name in today:
        counts = {"today": today[name]["count"], "then": later[name]["count"]}
        answer["capacity"][name] = counts
        rows.append((name, str(counts["today"]), str(counts["then"])))
    for when, fleet, away in (("today", known.fleet, ()), ("then", then, gone)):
        answer["survive_%s" % when], said = _survive(fleet, failures, away=away)
        lines += ["%s: %s" % (when, line) for line in said]
    moved = "all instances of %s find a place" % ", ".join(gone) if gone else ""
    moved = "%s find no place" % ", ".join(homeless) if homeless else moved
    if gone:
        answer["plan"], said = _plan(then, gone)
        lines += said
    return answer, [*table(("FLAVOR", "MORE TODAY", "MORE THEN"), rows), *([moved] if moved else []), *lines]


def _plan(fleet, gone):
    """How these hosts would become empty. It is to be read, not to be carried out: the fleet is another one today."""
    goal = Goal(DRAIN, frozenset(gone))
    plan = make_plan.make(fleet, goal)
    check(fleet, plan.waves, goal.closed)
    document = plain(plan_file.to_document(fleet, plan))
    del document["state"]
    return document, planned_lines.lines(document)


def _asserted(known, entries):
    flavors = {flavor["name"]: questions.one_more(flavor) for flavor in known.flavors.values()}
    found = assertions.check(known.fleet, entries, flavors)
    silent = [told for told in sorted(known.reported.verdicts.items()) if not silence.is_closed(told[1])]
    if silent:  # nobody knows what they hold
        found.append(assertions.Checked("all hosts answer", "; ".join("%s: %s" % told for told in silent)))
    answer = [{"name": each.name, "holds": not each.why, "why": each.why} for each in found]
    rows = [(each.name, "no" if each.why else "yes", each.why) for each in found]
    return answer, table(("ASSERTION", "HOLDS", "WHY NOT"), rows)


def _survive(fleet, failures, away=()):
    found = questions.survive(fleet, failures, away=away)
    answer = {
        "survives": not found.hosts,
        "failing": list(found.hosts),
        "instances": list(found.names),
        "proven": found.proven,
    }
    if not failures and not found.hosts:
        return answer, []
    if not found.hosts:
        text = "the instances of any %d hosts find a place on the others" % failures
        return answer, [text if failures > 1 else "the instances of any host find a place on the others"]
    sure = "find no place" if found.proven else "found no place, one placed after the other"
    return answer, ["without %s: %s %s on the other hosts" % (", ".join(found.hosts), ", ".join(found.names), sure)]


def junit(suite: str, results: Sequence[Tuple[str, str]]) -> bytes:
    """``results``: (name, why it failed, "" if it did not)."""
    failures = sum(bool(why) for _name, why in results)
    root = ElementTree.Element(
        "testsuite", name="berth.kvm %s" % suite, tests=str(len(results)), failures=str(failures), errors="0"
    )
    for name, why in results:
        case = ElementTree.SubElement(root, "testcase", classname="berth.kvm.%s" % suite, name=name)
        if why:
            ElementTree.SubElement(case, "failure", message=why)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=False) + b"\n"
