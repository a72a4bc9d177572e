# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each decision leaves a receipt with the hosts' documents, that holds no secret and says why."""

from __future__ import annotations

import base64
import gzip
import stat
import time
from types import SimpleNamespace

import pytest
from ansible.playbook.task import Task
from placement_case import VM, facts
from receipt_case import create, files, replay, run, why

from ansible_collections.berth.kvm.plugins.module_utils.conductor import placing
from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import acting, receipts

SECRET = "canary-b3r7h"


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


# -- why


def test_why_shows_the_last_decision_with_reasons_numbers_weights_who_and_when(own_state, capsys):
    create({"web1": VM, "db": VM})
    (first,) = files(own_state)
    first = first.rename(first.with_name("20200101T000000Z-r-00000000-create.receipt.gz"))
    create({"web1": {**VM, "berth_flavor": "huge"}})
    shown = why("web1")
    said = capsys.readouterr().out
    assert shown["receipt_file"] == str(first), "it is where that decision put it"
    assert shown["refused"]["error"] and "web1: h" in said
    none = run("show_decision", {"name": "web1"}, hosts=("of-another-fleet",))
    assert none["error_code"] == "ReceiptNotFound"
    assert "web1: NO VALID HOST" in said and "VCPU: needs 64" in said
    assert "berth.kvm.create by %s, run r-" % receipts.acting.WHO in said
    assert why("db")["receipt_file"] == str(first)
    assert "db: h" in capsys.readouterr().out


@pytest.mark.parametrize("back", [0, 3600, 86400 * 400])
def test_why_shows_the_decision_that_was_written_last_though_the_clock_was_set_back(own_state, monkeypatch, back):
    earlier = create()["receipt_file"]
    now = time.time() - back
    monkeypatch.setattr(receipts, "time", SimpleNamespace(**{**vars(time), "time": lambda: now}))
    monkeypatch.setattr(acting, "RUN", "r-00000000")  # sorts before every other
    last = create()["receipt_file"]
    shown = why("web1")
    assert shown["receipt_file"] == last != earlier
    assert shown["receipt"]["at"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)), "what the clock said then"


@pytest.mark.parametrize("name", ["99999999T999999Z", "99991231T235959Z"])
def test_a_name_whose_time_is_none_or_the_last_that_there_is_stops_no_receipt(own_state, name):
    (own_state / "receipts").mkdir(parents=True)
    (own_state / "receipts" / (name + "-r-ffffffff-create.receipt.gz")).write_bytes(b"x")
    create()
    assert why("web1")["receipt"]["operation"] == "create"


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


@pytest.mark.parametrize("action, variable", [("replay_receipt", "berth_receipt"), ("show_decision", "berth_name")])
def test_what_the_playbook_was_not_given_is_named(action, variable):
    assert run(action, {})["msg"].startswith("InvalidInput: %s: nothing is given" % variable)


def test_a_receipt_has_how_long_the_decision_took(own_state, monkeypatch):
    """C12"""
    clock = iter((100.0, 100.25))
    monkeypatch.setattr(placing.time, "monotonic", lambda: next(clock))
    create()
    (path,) = files(own_state)
    assert receipts.read(str(path))[1]["seconds"] == 0.25
