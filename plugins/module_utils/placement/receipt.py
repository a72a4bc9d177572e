# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receipt of a placement: one document that says what was decided from what, and that replays bit for bit.

A receipt holds the options, the seed, the aggregates, of the requests what placement reads (no metadata, no location of
the image), a hash of every host's document, the verdict of every rule on every host with its numbers, the weights and
the selections. It holds no secret and needs none. ``replay`` with the same host documents, on any machine, gives the
same decision or says where it differs.
"""

from __future__ import annotations

import hashlib
import json

from ..model.errors import BerthError, InvalidInput
from . import explain
from .scheduler import load, select_destinations
from .text import plain

SCHEMA = 1
ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
# Beyond this many numbers and verdicts the matrix is left out: its hash stays, and replaying makes it again.
MOST_CELLS = 4000000
# How many values each host counts as in a request that the plain pipeline decided.
CELLS_OF_ROW = 40
# The parts of a request that placement reads: any other, also a future one, may be secret.
_KEPT = (
    "schema",
    "uuid",
    "name",
    "project_id",
    "flavor",
    "image",
    "networks",
    "disks",
    "snapshots",
    "rescue",
    "volumes",
    "group",
    "scheduler_hints",
    "pool",
    "availability_zone",
    "ignore_hosts",
    "force_hosts",
    "force_nodes",
    "requested_destination",
    "num_instances",
    "instance_uuids",
    "numa_topology",
    "pci_requests",
    "batch_id",
    "is_bfv",
    "network_metadata",
)
_KEPT_OF_IMAGE = ("id", "name", "properties", "disk_format", "min_disk", "min_ram")
_KEPT_OF_VOLUME = ("name", "size_gb", "boot_index", "new")


class ReceiptMismatch(BerthError):
    """The replay differs from its receipt: in the host documents (``snapshot``) or in the decision (``decision``)."""


def make(host_documents, requests, options, result, aggregates=(), left_out=None, seconds=None, texts=None):
    """Return the receipt of ``result``, which select_destinations returned for these arguments with ``explain`` true.

    ``left_out`` {host: reason} are hosts that took no part (unreachable, an invalid document); ``seconds`` is how long
    the decision took, which is not replayed; ``texts`` are the documents as canonical JSON, if they were made before.
    """
    texts = [canonical(document) for document in host_documents] if texts is None else texts
    matrix = plain(explain.matrix(result.requests))
    decision = {
        "requests": [
            {
                "name": answer.spec.name,
                "selections": [plain(selection.to_dict()) for selection in answer.selections],
                "error": answer.error.to_dict() if answer.error else None,
            }
            for answer in result.requests
        ],
        "matrix_sha256": digest(matrix),
    }
    receipt = {
        "schema": SCHEMA,
        "seed": result.seed,
        "options": plain(load(options)[2]),
        "aggregates": plain([_as_document(aggregate) for aggregate in aggregates]),
        "requests": [_request(request) for request in requests],
        "hosts": {document["host"]: _sha256(text) for document, text in zip(host_documents, texts)},
        "host_order_sha256": digest([document["host"] for document in host_documents]),
        "left_out": plain(left_out or {}),
        "decision": plain(decision),
        "matrix": matrix if _cells(matrix) <= MOST_CELLS else None,
    }
    receipt["sha256"] = digest(receipt)
    if seconds is not None:
        receipt["seconds"] = seconds
    return receipt


def _cells(matrix):
    """How many values a matrix holds."""
    number = sum(len(part) for column in matrix["columns"] for part in column.values() if isinstance(part, list))
    for request in matrix["requests"]:
        number += len(request.get("candidates", ())) * max(len(request.get("instances", ())), 1) * CELLS_OF_ROW
    return number


def replay(receipt, host_documents):
    """Decide again from the receipt and the host documents it was made from; returns the Result.

    Raises ReceiptMismatch if the documents are not those of the receipt or the decision is not the same in every
    verdict, number, weight and selection, and InvalidInput for a receipt of a newer schema.
    """
    if not isinstance(receipt, dict) or not isinstance(receipt.get("schema"), int) or receipt["schema"] > SCHEMA:
        raise InvalidInput("receipt", type(receipt).__name__, "a receipt of schema %d or older" % SCHEMA)
    body = {name: part for name, part in receipt.items() if name not in ("sha256", "seconds")}
    if digest(body) != receipt.get("sha256"):
        raise ReceiptMismatch("the receipt was changed after it was made", part="receipt")
    _same_hosts(receipt, host_documents)
    result = select_destinations(
        host_documents, receipt["requests"], receipt["options"], receipt["aggregates"], receipt["seed"], explain=True
    )
    again = make(
        host_documents, receipt["requests"], receipt["options"], result, receipt["aggregates"], receipt["left_out"]
    )
    if again["decision"] != receipt["decision"]:
        where = first_difference(body, again)
        raise ReceiptMismatch(
            "; ".join(differences(receipt, again)) or "the replay differs at %s" % where, part="decision", where=where
        )
    return result


def differences(receipt, again):
    """Return where two decisions on the same requests differ, for people: in the host, the error or the reasons."""
    found = []
    before, after = (_explained(each["matrix"]) for each in (receipt, again))
    for was, now in zip(receipt["decision"]["requests"], again["decision"]["requests"]):
        hosts = [_hosts(was), _hosts(now)]
        if hosts[0] != hosts[1]:
            found.append("%s: %s then, %s now" % (was["name"], *(", ".join(each) or "no host" for each in hosts)))
            continue
        where = first_difference(was, now, "decision") or first_difference(
            before.get(was["name"]), after.get(was["name"]), ""
        )
        if where:
            found.append(
                "%s: %s as before, for other reasons: %s"
                % (was["name"], ", ".join(hosts[1]) or "no host", where.lstrip("."))
            )
    return found


def _hosts(request):
    return [selection["host"] for selection in request["selections"]]


def _explained(matrix):
    """Return {request name: its document}, {} if the fleet is so large that the receipt has no matrix."""
    return {found["name"]: found for found in explain.documents(matrix)} if matrix else {}


def _same_hosts(receipt, host_documents):
    digests = {document["host"]: digest(document) for document in host_documents}
    changed = sorted(
        host for host in set(digests) | set(receipt["hosts"]) if digests.get(host) != receipt["hosts"].get(host)
    )
    if changed:
        raise ReceiptMismatch(
            "the documents of %d hosts are not those of the receipt: %s" % (len(changed), ", ".join(changed[:8])),
            part="snapshot",
            hosts=changed,
        )
    if digest([document["host"] for document in host_documents]) != receipt["host_order_sha256"]:
        raise ReceiptMismatch("the host documents are in another order than those of the receipt", part="snapshot")


def digest(value):
    """sha256 of a value's canonical JSON."""
    return _sha256(canonical(plain(value)))


def canonical(document):
    """The bytes of what is plain JSON already."""
    return ENCODE(document).encode("ascii")


def _sha256(text):
    return hashlib.sha256(text).hexdigest()


def first_difference(given, other, path="receipt"):
    """Return the path of the first place where two plain values differ, '' if they are equal."""
    if isinstance(given, dict) and isinstance(other, dict):
        for name in sorted(set(given) | (set(other) - {"sha256", "seconds"})):
            found = first_difference(given.get(name), other.get(name), "%s.%s" % (path, name))
            if found:
                return found
        return ""
    if isinstance(given, list) and isinstance(other, list) and len(given) == len(other):
        for at, (mine, its) in enumerate(zip(given, other)):
            found = first_difference(mine, its, "%s[%d]" % (path, at))
            if found:
                return found
        return ""
    return "" if given == other else path


def _request(document):
    parts = {name: document[name] for name in _KEPT if name in document}
    if isinstance(parts.get("image"), dict):
        parts["image"] = {name: parts["image"][name] for name in _KEPT_OF_IMAGE if name in parts["image"]}
    if parts.get("volumes"):
        parts["volumes"] = [{part: own[part] for part in _KEPT_OF_VOLUME if part in own} for own in parts["volumes"]]
    return plain(parts)


def _as_document(aggregate):
    return aggregate if isinstance(aggregate, dict) else aggregate.to_dict()
