# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action write_report: see plugins/modules/write_report.py for its documentation."""

from __future__ import annotations

import functools
from pathlib import Path

from ..module_utils.conductor.closing_table import Outcome, closing, power
from ..module_utils.conductor.doctor import counted, examine
from ..module_utils.conductor.errors import NoHostAnswered
from ..module_utils.conductor.fleet_report import Answers, add_what_became, errors, fleet_report
from ..module_utils.fleet import questions
from ..module_utils.model import host_state
from ..module_utils.model.collection_version import COLLECTION_VERSION
from ..module_utils.model.errors import BerthError, together
from ..module_utils.model.lifecycle import ACTIVE
from ..module_utils.model.safe_text import clean_all
from ..plugin_utils import fleet_metrics, receipts
from ..plugin_utils.acting import WHO
from ..plugin_utils.answers_of_hosts import replies
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.doctor_case import case_of
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.known_fleet import known_fleet, moves_live
from ..plugin_utils.plain import plain
from ..plugin_utils.report_page import ABOUT, MOST_MORE, data_path, page_path, render, write_report
from ..plugin_utils.screen import columns, say, warn
from ..plugin_utils.whose_fleet import Fleet, machines
from ..plugin_utils.whose_variables import Catalogs

SCHEMA = 1
MOST_SHOWN = 40  # instances on the screen; the files contain all


class ActionModule(ControllerAction):
    argument_spec = documented("write_report")

    def reported(self, result):
        return {name: result[name] for name in ("page", "data", "counts")}

    def act(self, args, task_vars):
        if task_vars.get("ansible_limit"):
            warn("the report is about the whole fleet, also with --limit")
        hosts = kvm_hosts(task_vars, args["hosts"])
        of_fleet = machines(task_vars, hosts)
        page, _path = together(
            [
                functools.partial(page_path, args["page"], Fleet(of_fleet)),
                lambda: args["metrics"] and fleet_metrics.check_path(args["metrics"]),
            ]
        )
        case = case_of(task_vars, hosts, args["asked"], self._loader)
        document = clean_all(self._document(case, hosts, task_vars, of_fleet))
        if not self._task.check_mode:
            write_report(page, render(document), document)
            if args["metrics"]:
                pools = {host: known["pools"] for host, known in case.fleet.documents.items()}
                fleet_metrics.write(args["metrics"], document, pools)
        say("", *_text(document, page, self._task.check_mode), "")
        if not case.fleet.documents:
            raise NoHostAnswered("no host answered; why is in %s" % page)
        return {"page": page, "data": data_path(page), "counts": document["counts"], "_ansible_verbose_override": True}

    def _document(self, case, hosts, task_vars, of_fleet):
        findings = examine(case)
        zones, groups, messages = self._catalog(task_vars, hosts)
        decisions, unread = self._decisions(task_vars, of_fleet)
        add_what_became(decisions, case.fleet)
        answers = plain(replies(task_vars, "__berth_facts"))
        known = {
            key: {host: answers[host][key] for host in case.fleet.documents if key in answers.get(host, {})}
            for key in ("moves", "addresses")
        }
        report = fleet_report(Answers(case.fleet, case.in_inventory, zones, groups, **known, at=case.asked[1]))
        live, fits, unplanned = self._planned(task_vars, hosts)
        for row in report["instances"]:
            row["live"] = live.get(row["uuid"], "")
        for row in report["hosts"]:
            row["fits"] = {
                flavor: more.of_host[row["name"]] for flavor, more in fits.items() if row["name"] in more.of_host
            }
        return {
            "about": ABOUT,
            "schema": SCHEMA,
            "by": WHO,
            "version": COLLECTION_VERSION,
            "said": messages + unread + unplanned,
            **report,
            "findings": [found.to_dict() for found in findings],
            "counts": counted(findings),
            "machines": of_fleet,
            "errors": errors(findings, report["instances"]),
            "decisions": decisions,
        }

    def _planned(self, task_vars, hosts):
        """Return (uuid -> whether it would move live, or why not, of what the hosts own, flavor -> how many more of it fit, why
        both are unknown)."""
        try:
            known = known_fleet(self, task_vars, hosts)
        except BerthError as error:
            return {}, {}, ["Whether instances move live, and what fits, is not known. %s" % error.to_result()["msg"]]
        fits = questions.of_flavors(known.fleet, known.flavors.values(), most=MOST_MORE)
        return moves_live(known), fits, []

    def _decisions(self, task_vars, of_fleet):
        """Return (the last decisions, why they are unknown)."""
        try:
            return receipts.recent(receipts.settings(self, task_vars), Fleet(of_fleet)), []
        except BerthError as error:
            return [], ["The last decisions are not known. %s" % error.to_result()["msg"]]

    def _catalog(self, task_vars, hosts):
        """Return (host -> its zone, the server groups, what is wrong with the inventory)."""
        try:
            catalog = Catalogs(task_vars, [], hosts, self._loader).shared
            aggregates = catalog.aggregate_documents(plain(task_vars["groups"]))
        except BerthError as error:
            return {}, {}, ["Zones and server groups are not known. %s" % error.to_result()["msg"]]
        return host_state.zones(aggregates), catalog.server_groups, []


def _text(document, page, check_mode):
    hosts, counts, rows = document["hosts"], document["counts"], document["instances"]
    silent = {host["name"]: host["reason"] for host in hosts if host["instances"] is None}
    numbers = (len(hosts), len(silent), len(rows), len(document["confirms"]))
    findings = (document["errors"], counts["warning"], counts["note"])
    table = closing(map(_outcome, rows[:MOST_SHOWN]), silent, acts=False, width=columns())
    shown = table if rows else ["There is no instance."]
    more = ["The table has %d of %d instances." % (MOST_SHOWN, len(rows))] if len(rows) > MOST_SHOWN else []
    return [
        *shown,
        "",
        *more,
        "hosts: %d (%d without an answer), instances: %d, to confirm: %d" % numbers,
        "errors: %d, warnings: %d, notes: %d" % findings,
        "Check mode wrote no report; they would be" if check_mode else "The report, for a browser, and its data:",
        "  %s" % Path(page).as_uri(),
        "  %s" % data_path(page),
    ]


def _outcome(row):
    is_off = row["state"] == ACTIVE and row["guest"] not in ("running", "")
    state = power(row["guest"]) if is_off else row["state"]
    return Outcome(row["name"], state, *(row[part] for part in ("host", "flavor", "address", "why")))
