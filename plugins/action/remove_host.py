# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action remove_host: see plugins/modules/remove_host.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.errors import AuthorityUnsafe, KvmHostNotFound
from ..module_utils.conductor.procedures.remove_host import Removal, remove_host
from ..module_utils.conductor.registry.leaves import LeavesEngine
from ..module_utils.model import fleet_hints, input_hints
from ..module_utils.model.errors import InvalidInput
from ..plugin_utils import registry_access, trust
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.authority import KINDS, Authority
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import kvm_hosts, lost_hosts
from ..plugin_utils.revoked import Signed
from ..plugin_utils.screen import say
from ..plugin_utils.selection import names_by_uuid


class ActionModule(ControllerAction):
    argument_spec = documented("remove_host")

    def reported(self, result):
        return {part: result[part] for part in ("host", "revoked", "removed", "left")}

    def act(self, args, task_vars):
        hosts, host = kvm_hosts(task_vars, args["hosts"]), args["name"]
        if not host:
            raise InvalidInput(
                "berth_remove_host", None, "the name of a KVM host", hint=input_hints.give_host("berth_remove_host")
            )
        lost = lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"]))
        directory = trust.directory_of(task_vars, [host, *hosts], args["directory"])
        books = self._books(directory)
        if host not in hosts and not (host in lost and any(host in book.hosts for book in books)):
            raise KvmHostNotFound.of("berth_remove_host", host, hosts, task_vars["groups"]["all"])
        fleet = read_reports(task_vars, hosts)
        access = registry_access.of_run(self, task_vars, hosts)
        removal = Removal(
            host=host,
            names=names_by_uuid(task_vars),
            authorities=_texts(directory),
            lost=lost,
            registry=LeavesEngine() if access else None,
            dry=self._task.check_mode,
        )
        cleaned, _said = carry_out(self, task_vars, remove_host(removal, fleet), engine=access)
        known = {book.authority.kind for book in books if host in book.hosts}
        unknown = sorted({book.authority.kind for book in books} - known)
        revoked = sum(book.revoke(host) for book in books)
        dry = self._task.check_mode
        done = summary(host, revoked, unknown, dry) if books else nowhere(host, directory)
        about = summary_of_cleaning(host, cleaned, dry) if host in fleet.documents else [fleet_hints.clean_later(host)]
        say("", *about, *done, "")
        return {
            "changed": cleaned["changed"] or revoked > 0,
            "host": host,
            "revoked": revoked,
            "removed": cleaned["removed"],
            "left": cleaned["left"],
            "diff": {"before": "".join(path + "\n" for path in cleaned["removed"]), "after": ""},
        }

    def _books(self, directory):
        """What the existing authorities have signed; no authority is created here."""
        trusted = trust.load(directory).trusted
        found = [Authority(directory, kind, True, number) for kind in KINDS for number in trusted]
        dry = self._task.check_mode
        return [Signed(authority, directory, dry) for authority in found if is_whole(authority)]


def _texts(directory):
    """The certificates of the fleet's authorities by kind, also of earlier ones: hosts may still have theirs."""
    newest = max(trust.load(directory).trusted)
    every = {kind: [Authority(directory, kind, True, number) for number in range(1, newest + 1)] for kind in KINDS}
    return {kind: "".join(authority.text for authority in found) for kind, found in every.items()}


def is_whole(authority):
    """False if it was never made. Raise AuthorityUnsafe if a part of it is missing: what it signed is still valid."""
    parts = {authority.stem + "-ca.key": authority.key, authority.stem + "-ca.pem": authority.certificate}
    lost = [name for name, part in parts.items() if not part]
    if len(lost) == 1:
        raise AuthorityUnsafe(
            "%s is not there, so nothing can be revoked" % lost[0], hint=input_hints.bring_authority_key_back(lost[0])
        )
    return not lost


def nowhere(host, directory):
    """The lines if no authority signed for the fleet, or its directory is elsewhere, perhaps on another machine."""
    found = "There is no certificate authority in %s, so nothing is revoked. %s"
    return [found % (directory, fleet_hints.name_authority()), fleet_hints.take_out_host(host)]


def summary_of_cleaning(host, cleaned, check_mode):
    lines = ["Nothing of berth was left on %s." % host]
    if cleaned["changed"]:
        verb = "would be removed" if check_mode else "was removed"
        lines = ["What berth had put on %s %s:" % (host, verb), *("  " + path for path in cleaned["removed"])]
    if cleaned["left"]:
        lines += ["Left on %s:" % host, *("  " + line for line in cleaned["left"])]
    return [*lines, "Packages, libvirt, guests of others and storage pools with their files stay on %s." % host]


def summary(host, revoked, unknown, check_mode):
    verb = "would be" if check_mode else "are"
    done = (
        "%d certificates of %s %s revoked." % (revoked, host, verb)
        if revoked
        else "%s has no certificates to revoke." % host
    )
    lines = [done]
    if unknown:
        kinds = " and ".join(unknown)
        lines.append(
            "No certificate of %s for %s is remembered. %s" % (host, kinds, fleet_hints.note_certificates(host))
        )
    return lines if check_mode else [*lines, fleet_hints.take_out_host(host)]  # it has to be there for the run itself
