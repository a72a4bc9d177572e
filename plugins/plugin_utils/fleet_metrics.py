# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet's report as metrics for Prometheus: a file for the textfile collector of node_exporter."""

from __future__ import annotations

import calendar
import contextlib
import os
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from ..module_utils.conductor.errors import MetricsLibraryMissing
from ..module_utils.conductor.fleet_report import DISABLED, UP
from ..module_utils.model import host_hints
from ..module_utils.model.errors import InvalidInput
from .documents import check_replaceable, unwritable, write_file

try:
    import prometheus_client
except ImportError:
    prometheus_client = None

VARIABLE, REQUIREMENT = "berth_metrics", "prometheus_client>=0.20"
ENDING, OURS, MODE = ".prom", b"# HELP berthkvm_", 0o644  # node_exporter is another user
GIB, MIB = 1 << 30, 1 << 20
INSTANCE = "instance_name"  # Prometheus sets "instance" itself: to what it reads the file from
MOVES = ("resize", "cold_migrate", "live_migrate", "migrate")
Sample = Tuple[Sequence[str], float]  # the values of the labels, the value
# name: (labels, what it is)
METRICS: Dict[str, Tuple[Sequence[str], str]] = {
    "berthkvm_read_timestamp_seconds": ((), "When the hosts were read, by the controller's clock."),
    "berthkvm_host_up": (("host",), "Whether the host answered and is prepared."),
    "berthkvm_host_closed": (("host", "reason"), "1 for each host that takes no instance, with the reason."),
    "berthkvm_host_instances": (("host",), "How many instances the host has a part of."),
    "berthkvm_host_capacity": (
        ("host", "resource"),
        "What instances may have in total, after ratios and reserved amounts.",
    ),
    "berthkvm_host_used": (("host", "resource"), "What was given to instances."),
    "berthkvm_pool_size_bytes": (("host", "pool"), "The size of the storage pool."),
    "berthkvm_pool_free_bytes": (("host", "pool"), "What is really free in the storage pool."),
    "berthkvm_pool_promised_bytes": (("host", "pool"), "What was promised to instances in the storage pool."),
    "berthkvm_instance_state": (
        (INSTANCE, "project", "host", "state"),
        "1 for each instance, with its state and host.",
    ),
    "berthkvm_moves_unconfirmed": ((), "Resizes and migrations that wait for a confirm."),
    "berthkvm_findings": (("severity",), "How many findings the doctor has."),
    "berthkvm_errors": ((), "How many things are wrong: the doctor's errors, and instances in error."),
    "berthkvm_last_move_timestamp_seconds": (
        (INSTANCE, "host"),
        "When this controller last placed a move, and where.",
    ),
}


def check_path(path: str) -> None:
    """Raise before anything is written if the file cannot be one of metrics, or the library is not there."""
    if not path.endswith(ENDING) or os.path.basename(path) == ENDING:
        raise InvalidInput(VARIABLE, path, "a file name that ends in .prom")
    rule = "a new file or earlier metrics of a fleet: the existing file is neither"
    check_replaceable(path, VARIABLE, path, lambda file: file.read(len(OURS)) == OURS, rule)
    if prometheus_client is None:
        raise MetricsLibraryMissing(
            "%s needs the Python package prometheus_client, which is not installed on the controller" % VARIABLE,
            hint=host_hints.install_on_controller(REQUIREMENT),
        )


def write(path: str, document: Mapping[str, Any], pools: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the file, whole or not at all. ``document``: that of the report; ``pools``: host -> its storage pools."""
    registry = prometheus_client.CollectorRegistry()
    for name, samples in of(document, pools).items():
        labels, text = METRICS[name]
        gauge = prometheus_client.Gauge(name, text, labels, registry=registry)
        for values, value in samples:
            (gauge.labels(*values) if labels else gauge).set(value)
    try:
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_file(folder, os.path.basename(path), prometheus_client.generate_latest(registry), MODE)
        finally:
            os.close(folder)
    except OSError as error:
        raise unwritable(VARIABLE, path, error) from None


def of(document: Mapping[str, Any], pools: Mapping[str, Mapping[str, Any]]) -> Dict[str, List[Sample]]:
    """The samples of each metric."""
    hosts, said = document["hosts"], document["counts"]
    found: Dict[str, Iterable[Sample]] = {
        "berthkvm_read_timestamp_seconds": [((), _seconds(document["at"]))],
        "berthkvm_host_up": [((host["name"],), host["state"] in (UP, DISABLED)) for host in hosts],
        "berthkvm_host_closed": [((host["name"], host["reason"]), 1) for host in hosts if host["state"] == DISABLED],
        "berthkvm_host_instances": [
            ((host["name"],), host["instances"]) for host in hosts if host["instances"] is not None
        ],
        "berthkvm_host_capacity": _resources(hosts, "limit"),
        "berthkvm_host_used": _resources(hosts, "used"),
        "berthkvm_pool_size_bytes": _pools(pools, "capacity_gb"),
        "berthkvm_pool_free_bytes": _pools(pools, "free_gb"),
        "berthkvm_pool_promised_bytes": _pools(pools, "promised_gb"),
        "berthkvm_instance_state": [
            ((row["name"], row.get("project", ""), row["host"], row["state"]), 1) for row in document["instances"]
        ],
        "berthkvm_moves_unconfirmed": [((), len(document["confirms"]))],
        "berthkvm_findings": [((severity,), count) for severity, count in sorted(said.items())],
        "berthkvm_errors": [((), document["errors"])],
        "berthkvm_last_move_timestamp_seconds": _last_moves(document["decisions"]),
    }
    return {name: list(samples) for name, samples in found.items()}


def _resources(hosts: Iterable[Mapping[str, Any]], part: str) -> Iterator[Sample]:
    for host in hosts:
        for resource, measure in host["resources"].items():
            yield (host["name"], resource), measure[part]


def _pools(pools: Mapping[str, Mapping[str, Any]], part: str) -> Iterator[Sample]:
    for host, its in sorted(pools.items()):
        for name, pool in sorted(its.items()):
            if part == "free_gb" and "free_mb" in pool:
                yield (host, name), pool["free_mb"] * MIB
            else:
                yield (host, name), pool[part] * GIB


def _last_moves(decisions: Iterable[Mapping[str, Any]]) -> List[Sample]:
    """Of each instance the newest; ``decisions`` begin with the newest."""
    found: Dict[str, Sample] = {}
    for row in decisions:
        if row["operation"] in MOVES and row["host"]:
            found.setdefault(row["uuid"], ((row["instance"], row["host"]), _seconds(row["at"])))
    return list(found.values())


def _seconds(text: str) -> float:
    """The seconds since 1970 of a time in UTC; NaN of what is none, as a receipt of another make may have."""
    with contextlib.suppress(ValueError):
        return calendar.timegm(time.strptime(text[:19].replace(" ", "T"), "%Y-%m-%dT%H:%M:%S"))
    return float("nan")
