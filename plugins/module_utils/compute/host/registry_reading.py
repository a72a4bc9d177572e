# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host may read of the registry, over etcd's JSON gateway (v3): who owns which instance. It writes nothing there."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import time
from typing import Any, Dict, NamedTuple

from ...model import registry_documents
from ...model.errors import BerthError
from ...model.safe_text import clean
from ...model.shape import Fault

ANSWER = 10  # seconds until a member has answered; etcd itself gives up after 7
PAUSE = 5  # seconds until all are asked again: members may be hosts that boot, too
AT_ONCE = 100  # keys of one question: etcd takes 128


class RegistrySilent(BerthError):
    """No member of the registry has answered this host in time, or no majority of them is there."""


class Read(NamedTuple):
    """``mark``: the registry and its revision, as registry_mark.py keeps them; ``entries``: uuid -> what it has of the instance."""

    mark: Dict[str, Any]
    is_open: bool
    entries: Dict[str, Dict[str, Any]]


class Registry:
    """``settings``: {members: [[host, port]], user, password, authority}, the last being PEM; ``certificate``: the path of this
    host's key and certificate; ``wait``: seconds in which somebody has to answer."""

    def __init__(self, settings, certificate, wait):
        self.settings, self.wait = settings, wait
        self.tls = ssl.create_default_context(cadata=settings["authority"])
        self.tls.load_cert_chain(certificate)

    def read(self, uuids) -> Read:
        """As of one moment for each AT_ONCE of them, of the last moment for the mark. Raises RegistrySilent."""
        end = time.monotonic() + self.wait
        while True:
            failed = []
            for host, port in self.settings["members"]:
                try:
                    return self._read(host, port, uuids)
                except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, Fault) as error:
                    failed.append("%s: %s" % (host, clean(str(error) or type(error).__name__, 200)))
            if time.monotonic() + PAUSE > end:
                raise RegistrySilent("no member of the registry answers: %s" % "; ".join(failed))
            time.sleep(PAUSE)

    def _read(self, host, port, uuids):
        connection = http.client.HTTPSConnection(host, port, timeout=ANSWER, context=self.tls)
        with contextlib.closing(connection):
            login = {"name": self.settings["user"], "password": self.settings["password"]}
            token = _asked(connection, "/v3/auth/authenticate", login)["token"]
            entries = {}
            for at in range(0, max(len(uuids), 1), AT_ONCE):
                keys = [registry_documents.INSTANCES + uuid for uuid in uuids[at : at + AT_ONCE]]
                revision, found = _found(connection, token, [*keys, registry_documents.META])
                meta = registry_documents.REGISTRY(found.pop(registry_documents.META))
                entries.update({key.rpartition("/")[2]: registry_documents.INSTANCE(found[key]) for key in found})
        return Read(
            {"kind": meta["kind"], "incarnation": meta["incarnation"], "revision": revision}, meta["open"], entries
        )


def _found(connection, token, keys):
    """(revision, key -> document) of those that are there, as a majority knows them."""
    reads = [{"request_range": {"key": base64.b64encode(key.encode()).decode()}} for key in keys]
    answer = _asked(connection, "/v3/kv/txn", {"success": reads}, token)
    pairs = [pair for part in answer["responses"] for pair in part["response_range"].get("kvs", ())]
    found = {base64.b64decode(pair["key"]).decode(): json.loads(base64.b64decode(pair["value"])) for pair in pairs}
    return int(answer["header"]["revision"]), found


def _asked(connection, path, body, token=""):
    login = {"Authorization": token} if token else {}
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **login})
    reply = connection.getresponse()
    answer = json.loads(reply.read())
    if reply.status != http.client.OK:
        raise ValueError(answer.get("error") or "status %d" % reply.status)
    return answer
