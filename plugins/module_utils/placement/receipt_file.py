# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A receipt as a file: gzip of three lines of JSON, who decided what and when, the receipt, and the hosts' documents.

Readers trust nothing in it: it may have been edited, cut off or made to do harm.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib

from ..model.collection_version import COLLECTION_VERSION
from ..model.errors import BerthError
from ..model.host_document import HostDocumentInvalid, check
from .receipt import ReceiptMismatch, canonical, replay
from .scheduler import select_destinations
from .text import plain

FORMAT, SCHEMA = "berth.kvm receipt", 1
MOST_BYTES = 1 << 28  # unpacked: the documents of some 20,000 hosts with 20 instances each
MOST_OF_HEAD = 1 << 22
MOST_INSTANCES = 10000
LEVEL = 2  # half the time of 6, for a file that is a sixth larger


class ReceiptInvalid(BerthError):
    """The file is not a receipt that can be replayed: it is damaged, edited, from a newer version, or no receipt at all."""


def pack(receipt, texts, about):
    """Return the bytes of a file. ``texts``: of each host its document as canonical JSON; ``about``: {run, who, at, operation,
    instances {name: uuid}}."""
    head = {"format": FORMAT, "schema": SCHEMA, "collection": COLLECTION_VERSION, **about}
    body = _body(receipt, texts)
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=LEVEL, mtime=0) as packed:
        for part in (_line({**head, "sha256": _digest(head, body)}), *body):
            packed.write(part)
    return file.getvalue()


def _body(receipt, texts):
    """The last two lines in parts: the documents of a large fleet are not copied."""
    documents = [part for text in texts for part in (b",", text)][1:]
    return [_line(receipt), b"[", *documents, b"]\n"]


def unpack(data):
    """Return (head, receipt, documents) of the bytes of a file. Raises ReceiptInvalid, which does not name the file."""
    head, body = _read(data, MOST_BYTES).split(b"\n", 1)
    known = _head(head)
    if _digest({name: part for name, part in known.items() if name != "sha256"}, [body]) != known.get("sha256"):
        raise ReceiptInvalid("it was changed after it was made, or is damaged")
    parts = [_json(line) for line in body.splitlines()]
    if len(parts) != 2 or not isinstance(parts[0], dict) or not isinstance(parts[1], list):
        raise ReceiptInvalid("it does not hold a decision and the documents of the hosts")
    return known, parts[0], [_document(document) for document in parts[1]]


def read_head(data):
    """Return who decided what and when; the first part of a large file is enough."""
    return _head(_read(data, MOST_OF_HEAD, whole=False).split(b"\n", 1)[0])


def decide_again(receipt, documents, options=None):
    """Decide again on what unpack() returned. ReceiptMismatch if the decision differs, ReceiptInvalid if it fails. With other
    ``options`` of placement nothing is compared."""
    try:
        if any(request["num_instances"] > MOST_INSTANCES for request in receipt["requests"]):
            raise ReceiptInvalid("a request is for more than %d instances" % MOST_INSTANCES)
        if options is not None:
            return select_destinations(
                documents, receipt["requests"], options, receipt["aggregates"], receipt["seed"], check_policies=False
            )
        return replay(receipt, documents)
    except (ReceiptInvalid, ReceiptMismatch):
        raise
    except BerthError as error:  # such as a filter that is not installed here
        raise ReceiptInvalid("it cannot be decided again here: %s" % error) from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ReceiptInvalid("it holds values that no decision was made on: %s" % type(error).__name__) from None


def _line(value):
    return canonical(plain(value)) + b"\n"


def _digest(head, body):
    found = hashlib.sha256(_line(head))
    for part in body:
        found.update(part)
    return found.hexdigest()


def _read(data, most, whole=True):
    """Return the unpacked data, at most ``most`` bytes of it."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = reader.decompress(data, most)
    except zlib.error:
        raise ReceiptInvalid("it is not a receipt, or is damaged: not as gzip writes it") from None
    if whole and reader.unconsumed_tail:
        raise ReceiptInvalid("it holds more than %d MiB" % (most >> 20))
    if whole and (not reader.eof or reader.unused_data):
        raise ReceiptInvalid("it is cut off, or something was added to it")
    if b"\n" not in text:
        raise ReceiptInvalid("it is not a receipt: its first line does not end")
    return text


def _json(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ReceiptInvalid("it is not a receipt, or is damaged: a line is not JSON") from None


def _head(line):
    head = _json(line)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ReceiptInvalid("it is not a receipt of berth.kvm")
    if not isinstance(head.get("schema"), int) or head["schema"] > SCHEMA:
        raise ReceiptInvalid(
            "it is of format %s, and this version of the collection reads up to %d"
            % (str(head.get("schema"))[:20], SCHEMA)
        )
    texts = [head.get(name) for name in ("collection", "run", "who", "at", "operation")]
    instances = head.get("instances")
    if not isinstance(instances, dict) or not all(isinstance(text, str) for text in [*texts, *instances.values()]):
        raise ReceiptInvalid("its first line does not say who decided what")
    return head


def _document(document):
    """Check a host's document as its facts were checked on arrival; its name in the inventory may be anything."""
    try:
        checked = check({**document, "host": "a", "node": "a"})
        return {**checked, "host": str(document["host"]), "node": str(document["node"])}
    except (TypeError, KeyError):
        raise ReceiptInvalid("its data of a host is not a document") from None
    except HostDocumentInvalid as error:
        raise ReceiptInvalid("its data of host %s is not valid: %s" % (document["host"], error)) from None
