# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor examines: the hosts' answers in this run and the inventory, and what the members of the registry tell, each by
itself.

What a member tells in /metrics needs a certificate and no login, so it tells it without a majority, too.
"""

from __future__ import annotations

import http.client
import re
import ssl
import time
from typing import Any, Dict, List, Sequence

from ..module_utils.conductor.doctor import Case, Finding
from ..module_utils.conductor.errors import RegistryAuthorityMissing, RegistryUnknown
from ..module_utils.conductor.procedures.steps import Transact
from ..module_utils.conductor.registry import doctor, keys
from ..module_utils.conductor.registry.doctor import MemberSeen, RegistrySeen
from . import registry_access
from .answers_of_hosts import read_reports, replies
from .etcd import REACH, Etcd, Member
from .inventory_differences import InventoryDifferences
from .plain import plain
from .selection import known_hosts, names_by_uuid


def case_of(task_vars: Dict[str, Any], hosts: List[str], asked: Sequence[float], loader: Any) -> Case:
    """``asked``: when the hosts were asked, and when they had answered; ``loader``: Ansible's."""
    fleet = read_reports(task_vars, hosts)
    answers = plain(replies(task_vars, "__berth_facts"))
    checkups = {host: answers[host]["checkup"] for host in fleet.documents if "checkup" in answers.get(host, {})}
    fleet.notes = {fleet.documents[host]["uuid"]: checkup["notes"] for host, checkup in checkups.items()}
    named = names_by_uuid(task_vars)
    inventory = InventoryDifferences(task_vars, list(named.values()), hosts, loader)
    wished = {
        uuid: (inventory.request(name, fleet.places.get(uuid, ())) or {}).get("networks") or ()
        for uuid, name in named.items()
        if any(place["unfiltered"] for place in fleet.places.get(uuid, ()))
    }
    return Case(fleet, checkups, named, known_hosts(task_vars, hosts), (asked[0], asked[1]), wished)


MOST = 1 << 22  # bytes of /metrics
VERSION = re.compile(r'^etcd_server_version\{server_version="([0-9A-Za-z.+-]{1,40})"\}', re.MULTILINE)
GAUGE = re.compile(r"^(etcd_\w+) ([0-9.e+]+)$", re.MULTILINE)


def registry_findings(action: Any, task_vars: Dict[str, Any], hosts: List[str]) -> List[Finding]:
    """None where the run works over the hosts alone."""
    members = registry_access.members_of_run(action, task_vars)
    if not members:
        return []
    directory = registry_access.directory_of_run(task_vars, hosts)
    try:
        tls = registry_access.tls(registry_access.authority_in(directory))
    except RegistryAuthorityMissing as error:
        return list(doctor.findings(RegistrySeen((), error), time.time()))
    each = [_member(member, tls) for member in members]
    return list(doctor.findings(_whole(registry_access.engine(members, directory), each), time.time()))


def _whole(engine: Etcd, members: List[MemberSeen]) -> RegistrySeen:
    try:
        found = engine.transact(Transact(reads=(keys.META,)))["found"].get(keys.META)
        alarms = engine.ask("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", ())
        names = [str(alarm.get("alarm")) for alarm in alarms]
        return RegistrySeen(members, None, names, keys.document(keys.META, found))
    except RegistryUnknown as error:
        return RegistrySeen(members, error)


def _member(member: Member, tls: ssl.SSLContext) -> MemberSeen:
    connection = http.client.HTTPSConnection(member.host, member.port, timeout=REACH, context=tls)
    try:
        connection.connect()
        certificate = connection.sock.getpeercert() or {}
        connection.request("GET", "/metrics")
        text = connection.getresponse().read(MOST).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return MemberSeen(str(member), str(error) or type(error).__name__)
    finally:
        connection.close()
    told, version = dict(GAUGE.findall(text)), VERSION.search(text)
    if not version:
        return MemberSeen(str(member), "it answers what etcd does not")
    return MemberSeen(
        str(member),
        has_leader=_number(told, "etcd_server_has_leader") > 0,
        version=version[1],
        used=_number(told, "etcd_mvcc_db_total_size_in_bytes"),
        quota=_number(told, "etcd_server_quota_backend_bytes"),
        ends=float(ssl.cert_time_to_seconds(str(certificate.get("notAfter")))),
    )


def _number(told: Dict[str, str], name: str) -> int:
    return int(float(told.get(name, 0)))
