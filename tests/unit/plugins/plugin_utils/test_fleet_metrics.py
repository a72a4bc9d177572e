# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as metrics: what the file has, what it never replaces, and that page and dashboard know the same names."""

from __future__ import annotations

import json
import math
import re
import stat
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import MetricsLibraryMissing
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.plugin_utils import fleet_metrics

ROOT = Path(__file__).parents[4]
NAME = re.compile(r"\bberthkvm_[a-z_]+")
HOSTS = [
    {"name": "kvm1", "state": "up", "reason": "", "instances": 1, "resources": {"MEMORY_MB": {"used": 1, "limit": 4}}},
    {"name": "kvm2", "state": "disabled", "reason": 'new "disks"', "instances": 0, "resources": {}},
    {"name": "kvm3", "state": "no answer", "reason": "UNREACHABLE", "instances": None, "resources": {}},
]
DECISIONS = [
    {"operation": "migrate", "host": "kvm1", "instance": "web1", "uuid": "u", "at": "2026-11-28T20:00:00Z"},
    {"operation": "resize", "host": "kvm2", "instance": "web1", "uuid": "u", "at": "2026-11-27T20:00:00Z"},
    {"operation": "create", "host": "kvm2", "instance": "db", "uuid": "v", "at": "2026-11-27T20:00:00Z"},
]
DOCUMENT = {
    "at": "2026-11-28T20:00:00Z",
    "hosts": HOSTS,
    "instances": [{"name": "web1", "project": "default", "host": "kvm1", "state": "active"}],
    "confirms": [],
    "counts": {"error": 2, "warning": 0, "note": 1},
    "errors": 2,
    "decisions": DECISIONS,
}
POOLS = {"kvm1": {"berth": {"capacity_gb": 10, "free_gb": 2, "free_mb": 2050, "promised_gb": 3}}}


def test_each_metric_has_what_the_report_says():
    found = fleet_metrics.of(DOCUMENT, POOLS)
    assert found.keys() == fleet_metrics.METRICS.keys()
    assert found["berthkvm_host_up"] == [(("kvm1",), True), (("kvm2",), True), (("kvm3",), False)]
    assert found["berthkvm_host_closed"] == [(("kvm2", 'new "disks"'), 1)]
    assert found["berthkvm_host_instances"] == [(("kvm1",), 1), (("kvm2",), 0)]
    assert found["berthkvm_host_capacity"] == [(("kvm1", "MEMORY_MB"), 4)]
    assert found["berthkvm_pool_free_bytes"] == [(("kvm1", "berth"), 2050 << 20)]
    assert found["berthkvm_pool_promised_bytes"] == [(("kvm1", "berth"), 3 << 30)]
    assert found["berthkvm_instance_state"] == [(("web1", "default", "kvm1", "active"), 1)]
    assert found["berthkvm_last_move_timestamp_seconds"] == [(("web1", "kvm1"), 1795896000.0)]
    assert math.isnan(fleet_metrics._seconds("long ago"))


def test_the_page_and_the_dashboard_know_these_metrics_and_no_others():
    page = (ROOT / "docs/report.md").read_text("utf-8")
    rows = re.findall(r"^\| (`berthkvm_[^|]*)\|", page, re.MULTILINE)
    assert {name for row in rows for name in NAME.findall(row)} == fleet_metrics.METRICS.keys()
    dashboard = json.loads((ROOT / "examples/grafana-dashboard.json").read_text("utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert {name for target in targets for name in NAME.findall(target["expr"])} <= fleet_metrics.METRICS.keys()
    for target in targets:
        asked = set(NAME.findall(target["expr"]))
        labels = {label for name in asked for label in fleet_metrics.METRICS[name][0]}
        selected = re.findall(r"(\w+)[=!]~?\"|by \((\w+)\)", target["expr"])
        assert {*re.findall(r"{{(\w+)}}", target["legendFormat"]), *map("".join, selected)} <= labels, target


def test_no_label_is_one_that_prometheus_sets_for_what_it_reads():
    assert not {"instance", "job"} & {label for labels, _what in fleet_metrics.METRICS.values() for label in labels}


def test_a_file_that_has_no_metrics_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_metrics, "prometheus_client", object())
    mine = tmp_path / "mine.prom"
    mine.write_text("node_load1 1\n")
    for path in (mine, tmp_path / "fleet.txt", tmp_path / ".prom"):
        with pytest.raises(InvalidInput):
            fleet_metrics.check_path(str(path))
    fleet_metrics.check_path(str(tmp_path / "new.prom"))


def test_without_the_library_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_metrics, "prometheus_client", None)
    with pytest.raises(MetricsLibraryMissing) as raised:
        fleet_metrics.check_path(str(tmp_path / "new.prom"))
    assert raised.value.hint == host_hints.install_on_controller(fleet_metrics.REQUIREMENT)


def test_the_file_is_what_prometheus_reads_and_may_be_read_by_all(tmp_path):
    client = pytest.importorskip("prometheus_client.parser")
    path = tmp_path / "fleet.prom"
    fleet_metrics.write(str(path), DOCUMENT, POOLS)
    families = {family.name: family.samples for family in client.text_string_to_metric_families(path.read_text())}
    assert families.keys() == fleet_metrics.METRICS.keys()
    (closed,) = families["berthkvm_host_closed"]
    assert (closed.labels, closed.value) == ({"host": "kvm2", "reason": 'new "disks"'}, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and [each.name for each in tmp_path.iterdir()] == ["fleet.prom"]
    fleet_metrics.check_path(str(path))
    with pytest.raises(InvalidInput):
        fleet_metrics.write(str(tmp_path / "no" / "fleet.prom"), DOCUMENT, POOLS)
