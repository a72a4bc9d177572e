# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's last decisions: read from this controller's receipts, which may be missing, damaged or many."""

from __future__ import annotations

import pytest
from placement_case import VM, facts, place
from test_write_report import Case, good

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import acting, receipts


@pytest.fixture
def case(tmp_path, monkeypatch):
    return Case(tmp_path, monkeypatch)


def decide(**instances):
    wished = {name: {**VM, "berth_flavor": flavor} for name, flavor in instances.items()}
    same_machines = {host: facts(host, uuid=good.UUIDS[host]) for host in ("h1", "h2")}
    return place(wished, None, args={"plan": True}, more_facts=same_machines)


def kept(tmp_path):
    return sorted((tmp_path / "state" / "berth" / "receipts").iterdir())


def test_each_decision_says_where_the_instance_went_and_what_became_of_each_host(case):
    chosen = decide(web1=VM["berth_flavor"], huge="huge")["selections"]["web1"]["host"]
    assert not case.write().get("failed")
    page, data = case.written()
    by_name = {row["instance"]: row for row in data["decisions"]}
    assert set(by_name) == {"web1", "huge"}
    web1, huge = by_name["web1"], by_name["huge"]
    assert (web1["host"], web1["error"], web1["operation"]) == (chosen, "", "create")
    assert [row["why"] for row in web1["hosts"] if row["host"] == chosen] == ["chosen"]
    assert (huge["host"], bool(huge["error"])) == ("", True)
    assert huge["hosts"] and all("needs 64" in row["why"] for row in huge["hosts"])
    assert any("%s: 1. weight" % chosen in cell and cell.count("chosen") == 1 for row in page.rows for cell in row)
    assert any("no valid host" in cell for row in page.rows for cell in row)


def test_a_damaged_receipt_is_passed_over_and_none_at_all_is_said(case, tmp_path):
    assert not case.write().get("failed")
    assert case.written()[1]["decisions"] == []
    assert "No receipt of a decision is kept here." in case.page.read_text("utf-8")
    decide(web1=VM["berth_flavor"])
    kept(tmp_path)[0].write_bytes(b"\x1f\x8b no receipt")
    assert not case.write().get("failed")
    assert case.written()[1]["decisions"] == []


def test_a_directory_of_receipts_that_cannot_be_read_is_said_and_ends_nothing(case, tmp_path):
    case.variables["berth_receipt_dir"] = str(tmp_path / "nowhere")
    assert not case.write().get("failed")
    _page, data = case.written()
    assert data["decisions"] == [] and any("berth_receipt_dir" in said for said in data["said"])


def test_no_more_receipts_are_read_than_the_bound(case, monkeypatch):
    for number in range(3):
        monkeypatch.setattr(acting, "RUN", "r-0000000%d" % number)
        decide(web1=VM["berth_flavor"])
    read = []
    monkeypatch.setattr(receipts, "MOST_RECEIPTS", 1)
    monkeypatch.setattr(receipts, "read", lambda path, real=receipts.read: read.append(path) or real(path))
    assert not case.write().get("failed")
    assert (len(read), len(case.written()[1]["decisions"])) == (1, 1)


def test_beside_a_decision_stands_what_became_of_it(case):
    """L3: what was chosen is not where an instance is whose build failed, or that went elsewhere since."""
    selections = decide(broken="tiny", moved="tiny", stays="tiny")["selections"]
    decide(broken="tiny")
    at = {name: selection["host"] for name, selection in selections.items()}
    failure = {"name": "broken", "project_id": "default", "code": "ImageInvalid", "message": "no such image"}
    for host in ("h1", "h2"):
        document = case.document(host)
        document["failed_instances"] = [{**failure, "uuid": instance_uuid("default", "broken")}]
        held = "moved" if host != at["moved"] else "stays" if host == at["stays"] else None
        if held:
            like = document["instances"][0]
            document["instances"].append({**like, "uuid": instance_uuid("default", held), "name": held})
            document["num_instances"] += 1
    assert not case.write().get("failed")
    page, data = case.written()
    newest, *_others, first = [row for row in data["decisions"] if row["instance"] == "broken"]
    assert newest["became"] == "its build failed there: ImageInvalid: no such image" and first["became"] == ""
    (moved,) = [row for row in data["decisions"] if row["instance"] == "moved"]
    assert moved["became"] == "it is on %s now" % ({"h1", "h2"} - {at["moved"]}).pop()
    assert [cell for row in page.rows for cell in row if "its build failed there" in cell]
    assert all(row["became"] == "" for row in data["decisions"] if row["instance"] == "stays")
