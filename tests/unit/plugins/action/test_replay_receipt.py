# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a receipt is decided again to, and what is no whole receipt."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from receipt_case import MB, create, files, replay, why

from ansible_collections.berth.kvm.plugins.module_utils.placement import receipt_file
from ansible_collections.berth.kvm.plugins.module_utils.placement.receipt import canonical


def changed(path, change):
    """The file with its three lines changed, and a sum that fits again."""
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(*lines)
    head, receipt, hosts = lines
    about = {name: part for name, part in head.items() if name not in ("format", "schema", "collection", "sha256")}
    path.write_bytes(receipt_file.pack(receipt, map(canonical, hosts), about))


def with_sums(change):
    """Somebody who knows how the sum of the decision is made, too."""

    def changing(head, receipt, hosts):
        change(receipt, hosts)
        receipt["sha256"] = receipt_sum(receipt)

    return changing


def receipt_sum(receipt):
    from ansible_collections.berth.kvm.plugins.module_utils.placement.receipt import digest

    return digest({name: part for name, part in receipt.items() if name not in ("sha256", "seconds")})


def other_host(receipt, hosts):
    receipt["decision"]["requests"][0]["selections"][0]["host"] = "h9"


def other_reason(receipt, hosts):
    receipt["decision"]["matrix_sha256"] = "0" * 64
    (moments,) = {json.dumps(column) for column in receipt["matrix"]["columns"][:1]}
    receipt["matrix"]["requests"][0]["entry"]["instances"][0]["filters"] = []


def test_another_host_is_named(own_state):
    create()
    (path,) = files(own_state)
    changed(path, with_sums(other_host))
    result = replay(path)
    assert result["error_code"] == "ReceiptMismatch"
    assert str(path) in result["msg"] and "web1: h9 then, h" in result["msg"]


def test_other_reasons_for_the_same_host_are_named(own_state):
    create()
    (path,) = files(own_state)
    changed(path, with_sums(other_reason))
    result = replay(path)
    assert result["error_code"] == "ReceiptMismatch"
    assert "as before, for other reasons: instances[0].filters" in result["msg"]


def test_another_version_of_the_collection_is_told(own_state, monkeypatch, capsys):
    create()
    (path,) = files(own_state)
    monkeypatch.setattr("ansible_collections.berth.kvm.plugins.action.replay_receipt.COLLECTION_VERSION", "9.0.0")
    assert replay(path)["same"]
    assert "same decision (made by berth.kvm " in capsys.readouterr().out
    changed(path, with_sums(other_host))
    assert "decided again by 9.0.0" in replay(path)["msg"]


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def edit(path):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b'"web1"', b'"web9"')))


def rewritten(line):
    def write(path):
        path.write_bytes(gzip.compress(line))

    return write


def with_head(**changes):
    def write(path):
        head, rest = gzip.decompress(path.read_bytes()).split(b"\n", 1)
        path.write_bytes(gzip.compress(json.dumps({**json.loads(head), **changes}).encode() + b"\n" + rest))

    return write


def hostile(change):
    return lambda path: changed(path, with_sums(change))


def set_request(**values):
    return hostile(lambda receipt, hosts: receipt["requests"][0].update(values))


DAMAGED = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": cut,
    "a bit": flip,
    "edited": edit,
    "text": lambda path: path.write_text("root:x:0:0\n"),
    "something added": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "no line": rewritten(b"{}"),
    "no JSON": rewritten(b"{\n{\n"),
    "deep": rewritten(b"[" * 200000 + b"\n"),
    "not of this kind": rewritten(b'{"a": 1}\n'),
    "a bomb": rewritten(b"{}\n" + b"0" * (9 << 20)),
    "newer": with_head(schema=2),
    "older than any": with_head(schema=None),
    "names no list": with_head(instances=["web1"]),
    "no hosts": lambda path: changed(path, lambda head, receipt, hosts: hosts.clear()),
    "hosts are text": lambda path: changed(path, lambda head, receipt, hosts: hosts.append("kvm")),
    "a host lies": lambda path: changed(path, lambda head, receipt, hosts: hosts[0].update(vcpus=-1)),
    "a host has another number": lambda path: changed(path, lambda head, receipt, hosts: hosts[0].update(vcpus=1)),
    "a billion instances": set_request(num_instances=10**9),
    "a flavor that is none": set_request(flavor=[]),
    "a request that is none": hostile(lambda receipt, hosts: receipt.update(requests=[1])),
    "no requests": hostile(lambda receipt, hosts: receipt.pop("requests")),
    "no decision": hostile(lambda receipt, hosts: receipt.update(decision=None)),
    "a filter of nobody": hostile(lambda receipt, hosts: receipt["options"].update(enabled_filters=["os.system"])),
    "options that are none": hostile(lambda receipt, hosts: receipt.update(options=3)),
    "a newer decision": hostile(lambda receipt, hosts: receipt.update(schema=2)),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "not there": lambda path: path.unlink(),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_is_no_whole_receipt_is_an_error_that_names_the_file_and_shows_nothing_of_it(own_state, case, monkeypatch):
    monkeypatch.setattr(receipt_file, "MOST_BYTES", 8 * MB)
    create()
    (path,) = files(own_state)
    DAMAGED[case](path)
    result = replay(path)
    assert result["failed"] and result["error_code"] in ("ReceiptInvalid", "ReceiptMismatch"), result
    assert str(path) in result["msg"] and "root:x" not in result["msg"] and "MODULE FAILURE" not in result["msg"]
    assert why("web1").get("failed") or case not in ("edited", "cut off")


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/zero", "/dev/stdin", "/", "", "a\0b", "~nobody9/x"])
def test_a_path_that_is_no_receipt_is_an_error_that_names_it(path):
    result = replay(path)
    assert result["error_code"] == "ReceiptInvalid" and path.partition("\0")[0] in result["msg"]
