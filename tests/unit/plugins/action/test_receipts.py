# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each decision leaves a receipt with the hosts' documents, that is decided again from, and that harms nobody."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import stat
import threading
import time

import pytest
from ansible.playbook.task import Task
from ansible.utils.display import Display
from controller import Controller
from placement_case import VM, facts, place

from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints
from ansible_collections.berth.kvm.plugins.module_utils.placement import receipt_file
from ansible_collections.berth.kvm.plugins.plugin_utils import documents, receipts, state_directory

SECRET = "canary-b3r7h"
MB = 1 << 20


@pytest.fixture
def warnings(monkeypatch):
    said = []
    monkeypatch.setattr(Display, "warning", lambda self, text, *args, **more: said.append(text))
    return said


def create(instances=None, variables=None, **more):
    return place(instances or {"web1": VM}, variables, args={"plan": True}, **more)


def files(own_state):
    folder = own_state / "receipts"
    return sorted(folder.iterdir()) if folder.exists() else []


def run(action, args, variables=None):
    return Controller({"kvm_hosts": []}, {"all": variables or {}}).run(action, args)


def replay(path):
    return run("replay_receipt", {"path": str(path)})


def why(name, **variables):
    return run("show_decision", {"name": name}, variables)


# -- what is kept, and where


def test_each_decision_is_kept_for_its_owner_alone_and_decided_again_without_a_host(own_state, capsys):
    created = create({"web1": VM, "huge": {**VM, "berth_flavor": "huge"}})
    (path,) = files(own_state)
    assert created["receipt_file"] == str(path)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (own_state, path.parent, path)] == [0o700, 0o700, 0o600]
    again = replay(path)
    assert again["hosts"] == {"web1": [created["selections"]["web1"]["host"]], "huge": []}
    assert "same decision" in capsys.readouterr().out


def test_check_mode_keeps_none(own_state, monkeypatch):
    monkeypatch.setattr(Task, "check_mode", True)
    assert create()["selections"] and not own_state.exists()


def test_what_placement_reads_of_networks_and_disks_is_kept_so_that_reasons_are_the_same(own_state):
    lan = {**VM, "berth_networks": [{"network": "lan"}], "berth_disks": [{"name": "data", "size_gb": 1}]}
    create({"web1": lan}, more_facts={"h1": facts("h1", bridges=[]), "h2": facts("h2", bridges=["br0"])})
    assert replay(files(own_state)[0])["same"]


def test_what_placement_reads_of_volumes_is_kept_so_that_a_new_one_takes_the_same_room(own_state):
    volumes = {"berth_volumes_defined": {"db": {"size_gb": 1}, "os": {"size_gb": 2}}}
    create({"web1": {**VM, "berth_volumes": {"db": None, "os": {"boot_index": 0}}}}, volumes)
    again = replay(files(own_state)[0])
    assert again.get("same"), again


def test_no_secret_is_in_a_receipt_whatever_input_carries_it(own_state, tmp_path):
    image = {
        "url": "https://images.example.org/%s/g" % SECRET,
        "checksum": "sha256:" + "0" * 64,
        "disk_format": "qcow2",
    }
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ " + SECRET
    vm = {
        **VM,
        "berth_files": [{"path": "/etc/x", "content": SECRET}],
        "berth_key_names": ["ada"],
        "berth_admin_password_hash": "$6$%s$%s" % (SECRET.replace("-", ""), "x" * 86),
        "berth_user_data": base64.b64encode(("#cloud-config\nx: %s\n" % SECRET).encode()).decode(),
        "berth_ssh_keys": [key],
        "berth_metadata": {"token": SECRET},
        "ansible_password": SECRET,
        "ansible_become_password": SECRET,
    }
    kernel = {**image, "disk_format": "raw"}
    guest = {**image, "properties": {"kernel_id": "linux"}}
    catalog = {
        "berth_images": {"guest": guest, "linux": kernel},
        "berth_keypairs_defined": {"ada": {"public_key": key}},
        "ansible_become_password": SECRET,
    }
    assert create({"web1": vm}, catalog).get("selections")
    create({"web2": vm}, {**catalog, "berth_receipt_dir": str(tmp_path / "own")})
    kept = [*files(own_state), *(tmp_path / "own").iterdir()]
    assert len(kept) == 3
    for path in kept:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        assert SECRET.encode() not in data and SECRET.replace("-", "").encode() not in data


# -- bounded


def age(path, days):
    os.utime(path, (time.time() - days * 86400,) * 2)


def test_receipts_are_bounded_in_days_and_the_oldest_go_first(own_state):
    create()
    (old,) = files(own_state)
    old = old.rename(old.with_name("20200101T000000Z-r-00000000-create.receipt.gz"))
    (old.parent / "notes.txt").write_text("not ours")
    age(old, 29)
    age(old.parent / "notes.txt", 99)
    create()
    assert old.exists()
    age(old, 31)
    create()
    assert not old.exists() and (old.parent / "notes.txt").exists()
    assert [path for path in files(own_state) if path.suffix == ".gz"]


def test_receipts_are_bounded_in_mib(own_state):
    folder = own_state / "receipts"
    folder.mkdir(parents=True)
    names = ["2026010%dT000000Z-r-00000000-create.receipt.gz" % day for day in range(1, 5)]
    for at, name in enumerate(names):
        (folder / name).write_bytes(b"x" * (MB // 4))
        age(folder / name, 10 - at)
    (folder / (names[0] + ".0123456789abcdef.tmp")).write_bytes(b"of a run that was killed")
    age(folder / (names[0] + ".0123456789abcdef.tmp"), 11)
    create(variables={"berth_receipts_mb": "1"})
    left = [path.name for path in files(own_state)]
    assert len(left) == 4 and left[:3] == names[1:]
    assert sum(path.stat().st_size for path in files(own_state)) <= MB


def test_a_file_that_replaces_one_removes_no_other_for_the_room_that_it_gets_back(own_state):
    names = ["2026010%dT000000Z-r-00000000-create.receipt.gz" % day for day in (1, 2)]
    with state_directory.opened("receipts", make=True) as folder:
        for name in (*names, names[1]):
            state_directory.write_bounded(folder, name, b"x" * (MB // 2), receipts.OURS, MB, 30)
    assert [path.name for path in files(own_state)] == names


def test_a_receipt_that_is_too_large_by_itself_removes_no_other(own_state, warnings, monkeypatch):
    create()
    monkeypatch.setattr(receipt_file.gzip, "compress", lambda *args, **more: b"x" * (2 * MB))
    create(variables={"berth_receipts_mb": 1})
    assert len(files(own_state)) == 1 and len(warnings) == 1


@pytest.mark.parametrize(
    "wrong", [{"berth_receipts_mb": -1}, {"berth_receipts_days": 0}, {"berth_receipts_mb": "much"}]
)
def test_a_wrong_setting_is_refused_by_name(wrong):
    result = create(variables=wrong)
    assert (result["failed"], result["error_code"]) == (True, "InvalidInput") and next(iter(wrong)) in result["msg"]


def test_receipts_are_off_with_0_mib(own_state, warnings):
    create(variables={"berth_receipts_mb": 0})
    assert not own_state.exists() and warnings == []


# -- where it cannot be kept


def no_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a uid that nobody has, as in AWX's containers


def is_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))


def is_nonsense(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/x\x1b[2J")


def is_a_link(monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "berth").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def is_a_link_inside(monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "berth").mkdir()
    (tmp_path / "berth" / "receipts").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def is_anothers(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)


def is_full(monkeypatch, tmp_path):
    def write_file(folder, name, data, mode):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state_directory, "write_file", write_file)


def is_read_only(monkeypatch, tmp_path):
    def makedirs(*args, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "makedirs", makedirs)


@pytest.mark.parametrize(
    "case",
    [no_home, is_a_file, is_nonsense, is_a_link, is_a_link_inside, is_anothers, is_full, is_read_only],
    ids=lambda case: case.__name__,
)
def test_where_no_receipt_can_be_kept_one_warning_says_so_and_the_run_goes_on(case, monkeypatch, tmp_path, warnings):
    case(monkeypatch, tmp_path)
    result = create()
    assert result["selections"] and "receipt_file" not in result
    assert len(warnings) == 1 and warnings[0].startswith("No receipt of this decision is kept: ")
    assert "\x1b" not in warnings[0]
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())
    assert why("web1")["failed"]


def test_a_full_disk_keeps_no_half_of_a_file(tmp_path, monkeypatch):
    def fsync(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError):
        documents.write_document(str(tmp_path / "a"), {})
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_in_xdg_state_home_does_not_count(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = create()["receipt_file"]
    assert path.startswith(str(tmp_path / "home/.local/state/berth/receipts/"))


def test_a_directory_that_others_may_read_is_closed(own_state):
    own_state.mkdir(mode=0o755)
    create()
    assert stat.S_IMODE(own_state.stat().st_mode) == 0o700


def test_many_runs_at_once_each_keep_their_own_and_the_directory_may_vanish(own_state, monkeypatch):
    """More than there is room for: they remove the same files."""
    errors, one_by_one = [], iter(range(10**6))
    data = b"x" * (MB // 8)

    def write(number):
        for _again in range(5):
            name = "20260101T000000Z-r-%08x-create.receipt.gz" % next(one_by_one)
            try:
                with state_directory.opened("receipts", make=True) as folder:
                    state_directory.write_bounded(folder, name, data, receipts.OURS, MB, 30)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and files(own_state)
    for path in files(own_state):
        path.unlink()
    (own_state / "receipts").rmdir()
    assert create()["receipt_file"]


# -- deciding again


def changed(path, change):
    """The file with its three lines changed, and a sum that fits again."""
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(*lines)
    head, receipt, hosts = lines
    about = {name: part for name, part in head.items() if name not in ("format", "schema", "collection", "sha256")}
    path.write_bytes(receipt_file.pack(receipt, hosts, about))


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


# -- why


def test_why_shows_the_last_decision_with_reasons_numbers_weights_who_and_when(own_state, capsys):
    create({"web1": VM, "db": VM})
    (first,) = files(own_state)
    first = first.rename(first.with_name("20200101T000000Z-r-00000000-create.receipt.gz"))
    create({"web1": {**VM, "berth_flavor": "huge"}})
    shown = why("web1")
    said = capsys.readouterr().out
    assert shown["receipt_file"] != str(first)
    assert "web1: NO VALID HOST" in said and "VCPU: needs 64" in said
    assert "berth.kvm.create by %s, run r-" % receipts.acting.WHO in said
    assert why("db")["receipt_file"] == str(first)
    assert "db: h" in capsys.readouterr().out


def test_why_knows_the_project(own_state):
    create({"web1": {**VM, "berth_project": "blue"}})
    for project, found in (("blue", True), ("red", False), (None, True), ("", True)):
        result = run("show_decision", {"name": "web1", "project": project})
        assert ("decision" in result) is found


@pytest.mark.parametrize("name", ["wbe1", "../../etc/passwd", "", "web1\x1b[2J", "{{ 1 }}", "x" * 300])
def test_a_name_without_a_receipt_is_an_error_that_says_what_was_probably_meant(own_state, name):
    create({"web1": VM})
    result = why(name)
    assert result["error_code"] == "ReceiptNotFound"
    assert "web1" in result["msg"] and "\x1b" not in result["msg"]


def test_why_without_any_receipt_says_where_it_looked(own_state):
    assert str(own_state / "receipts") in why("web1")["msg"]


def test_a_file_of_somebody_else_among_the_receipts_is_passed_over(own_state):
    create()
    (own_state / "receipts" / "29990101T000000Z-r-00000000-create.receipt.gz").write_text("nonsense")
    (own_state / "receipts" / "zz").mkdir()
    assert why("web1")["decision"]


@pytest.mark.follows("name_instance")
def test_who_asks_why_of_no_instance_is_told_how_to_name_it(own_state):
    create()
    assert run("show_decision", {})["error"]["hint"] == input_hints.name_instance()
    assert why("web1")["decision"]


@pytest.mark.parametrize("action, variable", [("replay_receipt", "receipt"), ("show_decision", "berth_name")])
def test_what_the_playbook_was_not_given_is_named(action, variable):
    assert run(action, {})["msg"].startswith("InvalidInput: %s: nothing is given" % variable)
