# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry that a run works over, where berth_registry names the members of one: etcd://HOST[:PORT],HOST[:PORT].

The connection is TLS on both sides. The authority is in the directory of those for live migration, and of its own kind, since
a host's key for moves must not open the registry. The controller signs itself a certificate in each run.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import tempfile
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ansible.plugins.action import ActionBase

from ..module_utils.conductor.errors import RegistryAuthorityMissing, RegistryRestored, RegistryUnknown
from ..module_utils.conductor.procedures.steps import Scan, Transact, Transacted
from ..module_utils.conductor.registry import keys
from ..module_utils.model import registry_hints
from ..module_utils.model.messages import Document
from ..module_utils.model.schema import Text
from . import authority, trust
from .etcd import Etcd, Member, Seal

VARIABLE = "berth_registry"
ALONE = "embedded"  # the hosts alone, as where there is no such variable
KIND = "etcd"
PORT = 2379
AUTHORITY = "registry"  # kind of authority, see authority.py
# of the certificate with which hosts read it: members do not take it from each other, so no host can pose as one
HOSTS_AUTHORITY = "registry-hosts"
CONTROLLER = "berth-controller"  # who a controller is to the members: in its certificate, and the user of etcd
HOST = "berth-host"  # the same, of the hosts, who only read
ROOT = "root"  # etcd's own user for its settings and snapshots
PASSWORDS = {  # their files beside the authority
    CONTROLLER: "registry-password",
    HOST: "registry-host-password",
    ROOT: "registry-root-password",
}
DAYS = 1
_MEMBER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)(:[0-9]{1,5})?"
WHERE = Text(
    r"(|%s|etcd://%s(,%s)*)\Z" % (ALONE, _MEMBER, _MEMBER),
    "etcd://HOST[:PORT], with more members after commas, or %s for the hosts alone" % ALONE,
    longest=2000,
    empty=True,
)


class Access:
    """Carries out what procedures ask the registry, and says over which one the run works. ``dry``: nothing is written."""

    def __init__(self, engine: Any, dry: bool = False) -> None:
        self._engine, self._dry = engine, dry
        self._incarnation: Optional[str] = None
        self._revision = 0

    def transact(self, step: Transact) -> Transacted:
        answer: Transacted = self._engine.transact(step._replace(writes=()) if self._dry else step)
        self._note(answer)
        return answer

    def scan(self, step: Scan) -> Transacted:
        answer: Transacted = self._engine.scan(step)
        self._note(answer)
        return answer

    def mark(self) -> Optional[Document]:
        """The argument ``registry`` of what a host is asked now; None where no registry says which one it is. While it gives no
        answer, it is as the run knew it last: the host decides."""
        with contextlib.suppress(RegistryUnknown):
            self.transact(Transact(reads=(keys.META,)))
        if self._incarnation is None:
            return None
        return {"kind": KIND, "incarnation": self._incarnation, "revision": self._revision}

    def _note(self, answer: Transacted) -> None:
        if answer["revision"] < self._revision:
            raise RegistryRestored(
                "The registry was at revision %d when this run asked it before, and is at revision %d now: it was restored from a "
                "backup" % (self._revision, answer["revision"]),
                hint=registry_hints.audit_registry(),
            )
        self._revision = answer["revision"]
        meta = keys.document(keys.META, answer["found"].get(keys.META))
        if not meta:
            return
        if not keys.is_of_cluster(meta, answer["cluster"]):
            raise RegistryRestored(
                "The registry is another cluster of etcd than the one that the fleet uses: it was restored from a backup by hand",
                hint=registry_hints.compare_all_hosts(),
            )
        if self._incarnation not in (None, meta["incarnation"]):
            raise RegistryRestored(
                "The registry was %s when this run began, and is %s now: it was restored from a backup"
                % (self._incarnation, meta["incarnation"]),
                hint=registry_hints.audit_registry(),
            )
        self._incarnation = meta["incarnation"]


def of_run(action: ActionBase, task_vars: Dict[str, Any], hosts: Iterable[str]) -> Optional[Access]:
    """None where the run works over the hosts alone. ``hosts``: the KVM hosts, whose variables say where the authorities are.
    Raises InvalidInput or RegistryAuthorityMissing."""
    found = engine_of_run(action, task_vars, hosts)
    return Access(found, bool(action._task.check_mode)) if found else None


def engine_of_run(action: ActionBase, task_vars: Dict[str, Any], hosts: Iterable[str]) -> Optional[Etcd]:
    """The same, for a run that itself changes which incarnation it is."""
    members = members_of_run(action, task_vars)
    return engine(members, directory_of_run(task_vars, hosts)) if members else None


def directory_of_run(task_vars: Dict[str, Any], hosts: Iterable[str]) -> str:
    """Where the authorities are."""
    found: str = trust.directory_of(task_vars, list(hosts), str(trust.DIRECTORY_OPTION["default"]))
    return found


def engine(members: List[Member], directory: str, user: Optional[str] = CONTROLLER) -> Etcd:
    """``directory``: of the authorities; ``user``: of etcd, None before that has users."""
    own = authority_in(directory)
    return Etcd(members, tls(own), login(directory, user) if user else None, Seal(own.secret()))


def members_of_run(action: ActionBase, task_vars: Dict[str, Any]) -> List[Member]:
    given = action.own_variables(task_vars, [VARIABLE]).get(VARIABLE) or ALONE
    return members_of(given)


def members_of(given: str) -> List[Member]:
    """``given``: a value of berth_registry."""
    where: str = WHERE.check(given, VARIABLE)
    found = [] if where == ALONE else re.finditer(_MEMBER, where.removeprefix("etcd://"))
    return [Member(each[1].strip("[]"), int((each[2] or ":%d" % PORT)[1:])) for each in found]


def tls(own: authority.Authority) -> ssl.SSLContext:
    """``own``: the registry's authority."""
    context = ssl.create_default_context(cadata=own.text)
    key, certificate = own.own(CONTROLLER, DAYS)
    with tempfile.NamedTemporaryFile("w", prefix="berth-") as file:  # Python loads them from a file alone
        file.write(key + certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def authority_in(directory: str) -> authority.Authority:
    """That of the registry. Raises RegistryAuthorityMissing."""
    own = authority.Authority(directory, AUTHORITY, dry=True)
    if not own.key or not own.certificate:
        raise RegistryAuthorityMissing(
            "%s has no authority of the registry" % directory, hint=registry_hints.find_registry_authority()
        )
    return own


def login(directory: str, user: str) -> Optional[Tuple[str, str]]:
    with authority.locked(directory, dry=True) as folder:
        password = authority.read(folder, PASSWORDS[user], private=True).decode().strip()
    return (user, password) if password else None
