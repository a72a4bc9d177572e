# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action sign_certificates: see plugins/modules/sign_certificates.py for its documentation."""

from __future__ import annotations

import os

from ..module_utils.conductor import duplicate_hosts
from ..module_utils.conductor.errors import CertificateForeign
from ..module_utils.model import fleet_hints, input_hints
from ..module_utils.model.errors import InvalidInput
from ..plugin_utils import trust
from ..plugin_utils.authority import KINDS, check_names, issued_for, there_is_none
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts, raw_vars
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say, warn

PREPARED = "__kvm_host_prepared"  # what role kvm_host registers of each host
AWX_JOB = "awx_job_id"  # AWX passes it to each job
HELD = ("request", "certificate", "authority", "revoked")


class ActionModule(ControllerAction):
    argument_spec = documented("sign_certificates")

    def act(self, args, task_vars):
        names, held, days = check_names(plain(args["names"])), plain(args["held"]), args["days"]
        if not 1 <= days <= 3650:
            raise InvalidInput("days", days, "from 1 to 3650")
        if args["address"] and args["address"] not in names:
            warn(unnamed(task_vars["inventory_hostname"], args["address"]))
        check_authority_is_here(args["directory"], held, task_vars["inventory_hostname"])
        check_authority_stays(args["directory"], task_vars)
        check_one_name(task_vars, held, kvm_hosts(task_vars, args["hosts"]))
        signed, reasons, made = {}, {}, []
        rotation = trust.load(args["directory"])
        for kind in KINDS:
            theirs = {part: str((held.get(kind) or {}).get(part) or "") for part in HELD}
            trusted = trust.Trust(args["directory"], kind, rotation, dry=self._task.check_mode)
            made += [kind] if trusted.made else []
            why, parts = trusted.brought(theirs, names, days)
            if why:
                reasons[kind] = why
            if parts and not self._task.check_mode:
                signed[kind] = parts
        if made or (self._would_make(args["directory"]) and _is_first(task_vars)):
            say(*new_authority(args["directory"], bool(made)))
        rotating = rotation.phase != trust.REST
        if rotating and not (reasons or args["restart_pending"] or self._task.check_mode):
            trust.note_ready(args["directory"], task_vars["inventory_hostname"], rotation)
        return {"changed": bool(reasons), "reasons": reasons, "signed": signed, "rotating": rotating}

    def _would_make(self, directory):
        return self._task.check_mode and not os.path.isdir(directory)


def check_authority_stays(directory, task_vars):
    """A job of AWX makes nothing where nothing is, or in its image: the keys would end with the container of the job."""
    if AWX_JOB in task_vars and (not os.path.isdir(directory) or is_in_image(directory)):
        rule = "in a job of AWX, an existing directory on a volume: what the job makes ends with its container"
        raise InvalidInput("berth_ca_directory", directory, rule, hint=fleet_hints.keep_authority_of_a_job())


def is_in_image(directory, root="/", mounts="/proc/self/mounts"):
    """Whether this is a container and the directory is a part of its image, and no volume."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            kinds = [line.split()[2] for line in file if line.split()[1] == root]
        return "overlay" in "".join(kinds[-1:]) and os.stat(directory).st_dev == os.stat(root).st_dev
    except OSError:
        return False


def check_one_name(task_vars, held, hosts):
    """Each name of a machine would get a certificate, and the machine keeps the last: with that, nobody reaches it by the others.

    A name that is not in this run is known by the certificate that the machine has. ``hosts``: all KVM hosts.
    """
    host, uuids = task_vars["inventory_hostname"], {}
    for name in task_vars["ansible_play_hosts_all"]:
        prepared = raw_vars(task_vars, name).get(PREPARED) or {}
        if prepared.get("host_uuid"):
            uuids[name] = str(prepared["host_uuid"])
    if host in uuids:
        duplicate_hosts.check_alone(host, uuids)
    issued = {issued_for(str((held.get(kind) or {}).get("certificate") or "")) for kind in KINDS}
    duplicate_hosts.check_certificate(host, issued.intersection(hosts) - {host, *uuids})


def check_authority_is_here(directory, held, host):
    """An authority that is made now can be of no use to a host that trusts another, and a later host would get it."""
    if any((held.get(kind) or {}).get("authority") for kind in KINDS) and there_is_none(directory):
        raise CertificateForeign(
            "%s has certificates for live migration, and there is no authority in %s" % (host, directory),
            hint=input_hints.keep_foreign_certificates(),
        )


def _is_first(task_vars):
    """In check mode no authority is made, so every host finds none: report this only once."""
    return task_vars["inventory_hostname"] == (task_vars.get("ansible_play_hosts") or [None])[0]


def new_authority(directory, made):
    """The lines about a new authority: it can sign for the whole fleet, so people must know that it exists."""
    verb = "has made" if made else "would make"
    where = "This run %s a certificate authority for live migration on this machine, in %s." % (verb, directory)
    return where, input_hints.keep_authority()


def unnamed(host, address):
    """The host's own address is only compared, never signed: a host could give itself the name of another."""
    return (
        "%s says that other hosts reach it at %s, but the inventory does not name this address, so no live migration "
        "to it works. %s"
    ) % (
        host,
        address,
        input_hints.name_migration_address(host, address),
    )
