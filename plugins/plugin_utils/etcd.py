# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of etcd: carries out a Transact or a Scan of a procedure over etcd's JSON gateway (v3), with the standard
library alone.

One connection is kept. Members are tried in turn, as long as it is sure that nothing was written; a write whose answer was
lost is never sent again, since only the procedure knows whether it was its own: it reads again and decides.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import secrets
import select
import ssl
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..module_utils.conductor.errors import RegistryRefused, RegistryUnknown
from ..module_utils.conductor.procedures.steps import Compare, Found, Scan, Transact, Transacted, Write
from ..module_utils.conductor.registry import keys
from ..module_utils.model import registry_hints
from ..module_utils.model.collection_version import COLLECTION_VERSION
from ..module_utils.model.messages import Document

REACH = 3  # seconds until a member has taken the connection
ANSWER = 10  # seconds until it has answered; etcd itself gives up after 7
SEAL_DIGEST = "sha256"
SEAL_LENGTH = 32  # bytes
ROUNDS = 3  # how often a question goes to the members, where one took it and did not answer in time: it is busy
PAGE = 500  # keys of one answer
PREFIX = "etcdserver: "
# A member without a leader answers at once, and has done nothing.
HEADERS = {"Content-Type": "application/json", "Grpc-Metadata-hasleader": "true"}
NOTHING_DONE = ("no leader", "too many requests", "not capable", "server stopped", "learner")
TOKEN_OVER = ("invalid auth token", "revision of auth store is old", "user name is empty")
REFUSED = (
    "already exists",
    "authentication failed",
    "authentication is not enabled",
    "database space exceeded",
    "permission denied",
    "request is too large",
    "too many operations",
)


class Member(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return "%s:%d" % (self.host, self.port)


class NothingDone(Exception):
    """This member cannot do it now, and has not."""


class Lost(Exception):
    """The answer is missing: it may be done."""


class Etcd:
    """``login``: user and password; ``seal``: that of all controllers, else one of its own. For one thread. Its methods raise
    RegistryUnknown, and of these RegistryRefused where etcd says that it does not do it."""

    def __init__(
        self,
        members: Sequence[Member],
        tls: Optional[ssl.SSLContext] = None,
        login: Optional[Tuple[str, str]] = None,
        seal: Optional[Seal] = None,
    ) -> None:
        self._members, self._tls, self._login = list(members), tls, login
        self._seal = seal or Seal(secrets.token_bytes(32))
        self._http: Optional[http.client.HTTPConnection] = None
        self._token = ""

    def transact(self, step: Transact) -> Transacted:
        """``reads`` are read in the same transaction, after its writes."""
        reads = [{"request_range": {"key": _b64(key)}} for key in step.reads]
        body = {
            "compare": list(map(_compared, step.compare)),
            "success": [*map(self._written, step.writes), *reads],
            "failure": reads,
        }
        answer = self._asked("/v3/kv/txn", body, again=not step.writes)
        parts = answer.get("responses", ())[-len(reads) :] if reads else ()
        found = [pair for part in parts for pair in part["response_range"].get("kvs", ())]
        return self._transacted(answer, found, bool(answer.get("succeeded")))

    def scan(self, step: Scan) -> Transacted:
        """Page by page, all as of the revision of the first."""
        body: Document = {**with_prefix(step.prefix), "limit": PAGE}
        if step.since:  # etcd looks through all keys for each page of these
            body.update(min_mod_revision=step.since + 1, limit=0)
        answer = first = self._asked("/v3/kv/range", body, again=True)
        found = list(first.get("kvs", ()))
        while answer.get("more"):
            body.update(key=_b64(_raw(found[-1]["key"]) + b"\0"), revision=first["header"]["revision"])
            answer = self._asked("/v3/kv/range", body, again=True)
            found += answer.get("kvs", ())
        return self._transacted(first, found, True)

    def _written(self, write: Write) -> Document:
        if write.value is None:
            return {"request_delete_range": {"key": _b64(write.key)}}
        return {"request_put": {"key": _b64(write.key), "value": _b64(self._seal.sealed(write.key, write.value))}}

    def _transacted(self, answer: Document, pairs: Sequence[Dict[str, Any]], succeeded: bool) -> Transacted:
        found = {}
        for pair in pairs:
            key = _raw(pair["key"]).decode(errors="replace")
            value, sealed = self._seal.opened(key, _raw(pair.get("value", "")))
            found[key] = Found(value, int(pair["mod_revision"]), sealed)
        header = answer["header"]
        told = {"revision": int(header["revision"]), "cluster": str(header.get("cluster_id", ""))}
        return {"succeeded": succeeded, **told, "found": found}

    def ask(self, path: str, body: Document) -> Document:
        """A question that changes nothing, such as /v3/maintenance/status, to the first member that answers."""
        return self._asked(path, body, again=True)

    def order(self, path: str, body: Document) -> Document:
        """What changes etcd itself, such as /v3/auth/enable."""
        return self._asked(path, body, again=False)

    # --- one member after the other

    def _asked(self, path: str, body: Document, again: bool) -> Document:
        """``again``: it changes nothing, so it may be asked twice."""
        failed: List[str] = []
        for _round in range(ROUNDS if again else 1):
            failed, busy = [], False
            for _each in range(len(self._members)):
                try:
                    return self._authenticated(path, body)
                except (NothingDone, Lost) as error:
                    self._close()
                    failed.append("%s: %s" % (self._members[0], error))
                    self._members.append(self._members.pop(0))
                    busy = busy or isinstance(error, Lost)
                    if busy and not again:
                        raise _missing(failed[-1]) from None
            if not busy:
                break
        raise RegistryUnknown(
            "No member of the registry answers, or no majority of them is there: %s" % "; ".join(failed),
            hint=registry_hints.run_again_later(),
        )

    def _authenticated(self, path: str, body: Document) -> Document:
        """Log in where there is no token, or it is over."""
        for _attempt in range(2):
            if self._login and not self._token:
                self._token = self._new_token(*self._login)
            status, answer = self._exchange(path, body)
            if not _says(answer, TOKEN_OVER):
                break
            self._token = ""
        return _good(status, answer, self._members[0])

    def _new_token(self, name: str, password: str) -> str:
        try:
            reply = self._exchange("/v3/auth/authenticate", {"name": name, "password": password})
            return str(_good(*reply, self._members[0]).get("token", ""))
        except Lost as error:
            raise NothingDone(str(error)) from None

    def _exchange(self, path: str, body: Document) -> Tuple[int, Document]:
        connection = self._connected()
        try:
            connection.request(
                "POST", path, json.dumps(body), {**HEADERS, **({"Authorization": self._token} if self._token else {})}
            )
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Lost(str(error) or type(error).__name__) from None
        if not isinstance(answer, dict):
            raise Lost("it answers what etcd does not")
        return reply.status, answer

    def _connected(self) -> http.client.HTTPConnection:
        if self._http and not self._is_closed():
            return self._http
        self._close()
        host, port = self._members[0]
        connection = (
            http.client.HTTPSConnection(host, port, timeout=REACH, context=self._tls)
            if self._tls
            else http.client.HTTPConnection(host, port, timeout=REACH)
        )
        try:
            connection.connect()
        except (OSError, OverflowError, UnicodeError, http.client.HTTPException) as error:
            raise NothingDone(str(error) or type(error).__name__) from None
        connection.sock.settimeout(ANSWER)
        self._http = connection
        return connection

    def _is_closed(self) -> bool:
        """Whether the member has closed the connection while nothing was asked: it was restarted."""
        sock = self._http and self._http.sock
        return not sock or bool(select.select([sock], [], [], 0)[0])

    def _close(self) -> None:
        if self._http:
            self._http.close()
        self._http = None


def _missing(failed: str) -> RegistryUnknown:
    text = "The answer of the registry is missing (%s): what was being written may be there"
    return RegistryUnknown(text % failed, hint=registry_hints.run_again_later())


def _good(status: int, answer: Document, member: Member) -> Document:
    if status == http.client.OK:
        return answer
    said = _said(answer)
    if _says(answer, REFUSED):
        raise RegistryRefused(
            "The registry does not do it, %s says: %s" % (member, said), hint=registry_hints.see_doctor()
        )
    raise (NothingDone if _says(answer, NOTHING_DONE) else Lost)(said or "status %d" % status)


def _said(answer: Document) -> str:
    """The error that it is, in etcd's words."""
    return str(answer.get("error") or answer.get("message") or "").removeprefix(PREFIX)[:200]


def _says(answer: Document, words: Sequence[str]) -> bool:
    return any(word in _said(answer) for word in words)


def with_prefix(prefix: str) -> Document:
    """All keys with this prefix, as etcd is told of them."""
    end = bytearray(prefix.encode())
    end[-1] += 1
    return {"key": _b64(prefix), "range_end": _b64(bytes(end))}


def _b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _raw(text: str) -> bytes:
    return base64.b64decode(text)


def _compared(compare: Compare) -> Document:
    key = _b64(compare.key)
    if compare.value is not None:
        return {"key": key, "target": "VALUE", "value": _b64(compare.value)}
    if compare.revision:
        return {"key": key, "target": "MOD", "mod_revision": compare.revision}
    return {"key": key, "target": "CREATE", "create_revision": 0}


class Seal:
    """On the documents of hosts. A controller has checked what it seals, so the next one need not, which is most of what reading a
    large fleet takes. It is made with ``secret``, which all controllers have and no member of the registry: a member that lies can
    only leave the seal out, or give an older document of the same host, and then all is checked again.

    Of another version of the collection, which may check otherwise, no seal counts.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"berth facts %s" % COLLECTION_VERSION.encode(), SEAL_DIGEST)

    def sealed(self, key: str, value: bytes) -> bytes:
        """The value as it is kept."""
        return self._of(key, value) + value if key.startswith(keys.FACTS) else value

    def opened(self, key: str, kept: bytes) -> Tuple[bytes, bool]:
        """The value, and whether the seal is right."""
        if not key.startswith(keys.FACTS):
            return kept, False
        value = kept[SEAL_LENGTH:]
        return value, hmac.compare_digest(kept[:SEAL_LENGTH], self._of(key, value))

    def _of(self, key: str, value: bytes) -> bytes:
        return hmac.digest(self._key, b"%s %s" % (key.encode(), value), SEAL_DIGEST)
