# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.placement import explain, receipt
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations
from ansible_collections.berth.kvm.plugins.module_utils.placement.text import number, table


def host(name, **more):
    return {"host": name, "vcpus": 4, "memory_mb": 4096, "local_gb": 50, **more}


def fleet():
    return [
        host("k1", memory_mb_used=1024),
        host("k2"),
        host("k3", service={"disabled": True, "disabled_reason": "new disk"}),
        host("k4", memory_mb_used=3500),
        host("k5", num_io_ops=9),
    ]


def request(name="web", memory_mb=1024, **more):
    return {
        "uuid": name + "-id",
        "name": name,
        "flavor": {"name": "m", "vcpus": 1, "memory_mb": memory_mb, "root_gb": 1},
        **more,
    }


OPTIONS = {"enabled_filters": ["IoOpsFilter", "ComputeFilter"]}


def decide(*requests, options=OPTIONS, seed=0):  # pylint: disable=dangerous-default-value
    return select_destinations(fleet(), list(requests), options, seed=seed, explain=True)


def explained(*requests):
    return explain.document(decide(*requests).requests[-1])


def test_the_document_is_json_and_has_every_host():
    document = explained(request())
    assert json.loads(json.dumps(document)) == document
    assert set(document["candidates"]) == {"k1", "k2", "k3", "k4", "k5"}


def test_every_rejection_has_its_rule_and_reason():
    """S29, S32"""
    refused = explain.rejections(explained(request()))
    assert {host: rule for host, (rule, _reason) in refused.items()} == {
        "k3": "compute_status_filter",
        "k4": "capacity",
        "k5": "IoOpsFilter",
    }
    assert "needs 1024, 84 free" in refused["k4"][1]


def test_survivors_have_raw_normalised_and_multiplied_weights():
    ram = next(
        weigher for weigher in explained(request())["instances"][0]["weighers"] if weigher["weigher"] == "RAMWeigher"
    )
    assert ram["raw"] == {"k1": 2560, "k2": 3584}
    assert ram["normalised"]["k2"] == 1.0
    assert ram["multiplier"] == {"k1": 1.0, "k2": 1.0}


def test_the_text_names_the_choice_the_runner_up_and_the_reason_of_every_other_host():
    text = explain.decision_text(explained(request()))
    assert text.startswith("web: k2, the best of 2 of 5 hosts")
    assert "k4    -              capacity: MEMORY_MB: needs 1024, 84 free" in text
    assert "3584 > 1 x 1" in text


def test_the_text_of_a_failure_says_what_every_host_lacked():
    text = explain.decision_text(explained(request(memory_mb=9999)))
    assert text.startswith("web: NO VALID HOST")
    assert all("%s " % host in text for host in ("k1", "k2", "k3", "k4", "k5"))


def test_a_long_table_counts_what_it_leaves_out_by_rule():
    assert "... and 3 more: 1 compute_status_filter, 1 capacity, 1 IoOpsFilter" in explain.decision_text(
        explained(request()), 2
    )


def test_a_host_cannot_write_to_the_terminal():
    """Names and reasons may come from a compromised host."""
    lines = table(("A", "B"), [("\x1b[31mred", "\u202egnp")])
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (0.123456, "0.1235"), (2.5, "2.5"), (7, "7"), (None, "-"), (float("inf"), "inf")]
)
def test_numbers_are_written_as_people_do(value, text):
    assert number(value) == text


def test_the_fleet_table_has_a_line_per_host_and_says_who_is_left_out():
    """S11, S44"""
    text = explain.fleet_text(fleet(), {"k9": "UNREACHABLE"})
    assert "512 of 4096 x 1" in text and "disabled: new disk" in text and "UNREACHABLE" in text
    assert "0 of 50 x 1" in text, "each of the three with the ratio that its limit has"
    assert len(text.splitlines()) == 7
    kinds = [getattr(line, "kind", "") for line in explain.fleet_lines(fleet(), {"k9": "UNREACHABLE"})]
    assert kinds == [""] * 6 + ["left out"]


@pytest.mark.parametrize(
    "failed, state",
    [
        ({"failed_builds": 0}, "up"),
        ({"failed_builds": 1, "failed_build_age_s": 20}, "up, 1 failed build, 1 min ago"),
        ({"failed_builds": 2, "failed_build_age_s": 2100}, "up, 2 failed builds, the last 35 min ago"),
        ({"failed_builds": 3, "failed_build_age_s": 7500}, "up, 3 failed builds, the last 2 h ago"),
        ({"failed_builds": 2}, "up, 2 failed builds"),
        (
            {"failed_builds": 1, "failed_build_age_s": 60, "service": {"disabled": True}},
            "disabled: no reason given, 1 failed build, 1 min ago",
        ),
    ],
)
def test_the_fleet_table_tells_failed_builds_with_their_age(failed, state):
    (_head, line) = explain.fleet_text([host("k1", **failed)]).splitlines()
    assert line.endswith("  " + state)


def test_a_host_on_one_line_reads_as_in_nova():
    """S44"""
    assert explain.host_line(host("k1")) == "(k1, k1) ram: 3584MB disk: 51200MB io_ops: 0 instances: 0"


def made(*requests, options=OPTIONS, seed=3):  # pylint: disable=dangerous-default-value
    result = decide(*requests, options=options, seed=seed)
    return json.loads(json.dumps(receipt.make(fleet(), list(requests), options, result, seconds=0.5)))


def test_a_receipt_replays_bit_for_bit_from_its_json():
    """S07, S09: through a random choice among the best two"""
    paper = made(request("a"), request("b", memory_mb=9999), options={"host_subset_size": 2})
    again = receipt.replay(paper, json.loads(json.dumps(fleet())))
    assert again.requests[0].hosts == [
        selection["host"] for selection in paper["decision"]["requests"][0]["selections"]
    ]
    assert again.requests[1].hosts == []


def test_a_changed_host_is_named_by_the_replay():
    documents = fleet()
    documents[1]["memory_mb_used"] = 1
    with pytest.raises(receipt.ReceiptMismatch) as caught:
        receipt.replay(made(request()), documents)
    assert caught.value.details["hosts"] == ["k2"]


def test_hosts_in_another_order_are_another_snapshot():
    with pytest.raises(receipt.ReceiptMismatch):
        receipt.replay(made(request()), fleet()[::-1])


def test_a_receipt_that_somebody_altered_is_refused():
    paper = made(request())
    paper["seed"] = 4
    with pytest.raises(receipt.ReceiptMismatch) as caught:
        receipt.replay(paper, fleet())
    assert caught.value.details["part"] == "receipt"


def test_a_replay_that_decides_otherwise_says_where():
    paper = made(request())
    paper["decision"]["requests"][0]["selections"][0]["host"] = "k1"
    paper["sha256"] = receipt.digest({name: part for name, part in paper.items() if name not in ("sha256", "seconds")})
    with pytest.raises(receipt.ReceiptMismatch) as caught:
        receipt.replay(paper, fleet())
    assert caught.value.details["where"] == "receipt.decision.requests[0].selections[0].host"


def test_a_receipt_of_a_newer_schema_is_refused():
    """C03"""
    with pytest.raises(Exception, match="receipt"):
        receipt.replay(dict(made(request()), schema=99), fleet())


def test_a_receipt_holds_no_secret_and_no_place_of_an_image():
    """I10"""
    secret = {"metadata": {"password": "CANARY"}, "image": {"id": "i", "url": "http://x/CANARY", "properties": {}}}
    assert "CANARY" not in json.dumps(made(request(**secret)))


def test_the_time_is_told_but_not_replayed():
    """C12"""
    paper = made(request())
    assert paper["seconds"] == 0.5
    receipt.replay(dict(paper, seconds=99), fleet())


def test_the_matrix_of_a_huge_decision_is_left_out_but_not_its_hash(monkeypatch):
    whole = made(request())
    monkeypatch.setattr(receipt, "MOST_CELLS", 3)
    short = made(request())
    assert short["matrix"] is None
    assert short["decision"]["matrix_sha256"] == whole["decision"]["matrix_sha256"]
    receipt.replay(short, fleet())


@pytest.mark.parametrize(
    "name",
    ["DumpFilter", "dump", "nova.scheduler.filters.dump_filter.DumpFilter", "berth.kvm.dump", "berth.kvm.DumpFilter"],
)
def test_what_a_filter_tells_of_a_host_that_passes_is_shown_with_a_row_for_each_number(name):
    """S43: as the filter that this one is named after prints them."""
    options = {**OPTIONS, "enabled_filters": [name, "ComputeFilter"]}
    answer = decide(request(), options=options).requests[0]
    rows = [" ".join(line.split()) for line in explain.decision_text(explain.document(answer)).splitlines()]
    assert "DumpFilter of k1: (k1, k1) ram: 2560MB disk: 51200MB io_ops: 0 instances: 0" in rows, rows
    for row in (
        'state.host "k1"', "state.free_ram_mb 2560", "state.numa_topology null", "state.instances []", "asked.vcpus 1",
        "state.ram_allocation_ratio 1.0", "state.pci_stats []", "asked.memory_mb 1024",
    ):  # fmt: skip
        assert row in rows, (row, rows)
