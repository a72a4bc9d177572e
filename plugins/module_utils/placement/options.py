# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of placement: Nova's names and defaults, flat; only ``metrics`` is an object of its own."""

from __future__ import annotations

import functools
import math

from ..model.errors import InvalidInput, together
from ..model.unknown_names import did_you_mean
from .errors import DriverRemoved, UnknownOption

ALL_WEIGHERS = "nova.scheduler.weights.all_weighers"
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
DRIVERS = ("filter", "chance", "fake")
NO_CACHING = (
    "caching: Nova's caching scheduler placed by what it had kept of its hosts. Here every run reads them afresh, so there is "
    "nothing to keep: leave the driver out, or use filter"
)

# name: (default, lowest allowed value)
OPTIONS = {
    "driver": ("filter", None),
    "enabled_filters": (list(DEFAULT_FILTERS), None),
    "available_filters": (["nova.scheduler.filters.all_filters"], None),
    "weight_classes": ([ALL_WEIGHERS], None),
    "host_subset_size": (1, 1),
    "shuffle_best_same_weighed_hosts": (False, None),
    "max_attempts": (3, 1),
    # None: no limit (Nova: 1000, which hides hosts of a larger fleet from the weighers).
    "max_placement_results": (None, 1),
    "max_io_ops_per_host": (8, 0),
    "max_instances_per_host": (50, 1),
    "isolated_hosts": ([], None),
    "isolated_images": ([], None),
    "restrict_isolated_hosts_to_isolated_images": (True, None),
    "image_properties_default_architecture": (None, None),
    "aggregate_image_properties_isolation_namespace": (None, None),
    "aggregate_image_properties_isolation_separator": (".", None),
    "image_props_weight_setting": ([], None),
    "limit_tenants_to_placement_aggregate": (False, None),
    "placement_aggregate_required_for_tenants": (False, None),
    "enable_isolated_aggregate_filtering": (False, None),
    "query_placement_for_image_type_support": (False, None),
    "image_metadata_prefilter": (False, None),
    "packing_host_numa_cells_allocation_strategy": (False, None),
    "disable_fallback_pcpu_query": (False, None),
    "pci_alias": ([], None),
    "plugin_options": ({}, None),
    "ram_weight_multiplier": (1.0, None),
    "cpu_weight_multiplier": (1.0, None),
    "disk_weight_multiplier": (1.0, None),
    "io_ops_weight_multiplier": (-1.0, None),
    "num_instances_weight_multiplier": (0.0, None),
    "hypervisor_version_weight_multiplier": (1.0, None),
    "build_failure_weight_multiplier": (1000000.0, None),
    "pci_weight_multiplier": (1.0, 0.0),
    "soft_affinity_weight_multiplier": (1.0, 0.0),
    "soft_anti_affinity_weight_multiplier": (1.0, 0.0),
    "cross_cell_move_weight_multiplier": (1000000.0, None),
    "image_props_weight_multiplier": (0.0, None),
}
METRICS = {
    "weight_multiplier": (1.0, None),
    "weight_setting": ([], None),
    "required": (True, None),
    "weight_of_unavailable": (-10000.0, None),
}
# Options of Nova about services and databases that do not exist here: known, without effect.
WITHOUT_EFFECT = frozenset(
    "track_instance_changes discover_hosts_in_cells_interval periodic_task_interval workers pci_in_placement service_down_time "
    "query_placement_for_routed_network_aggregates query_placement_for_availability_zone initial_cpu_allocation_ratio "
    "initial_ram_allocation_ratio initial_disk_allocation_ratio cpu_allocation_ratio ram_allocation_ratio "
    "disk_allocation_ratio reserved_host_memory_mb reserved_host_disk_mb reserved_host_cpus".split()
)


class Options(dict):
    """Complete, checked options; read as a mapping."""


def read_options(given=None, declared=()):
    """Return the Options of ``given``; ``declared`` are {name: default} of enabled plugins.

    Raises UnknownOption with all unknown names, InvalidInput for a value of the wrong kind.
    """
    if isinstance(given, Options):
        return given
    known = dict(OPTIONS)
    for options in declared:
        known.update((name, (default, None)) for name, default in options.items() if name not in known)
    given = dict(given or {})
    metrics = given.pop("metrics", None) or {}
    if not isinstance(metrics, dict):
        raise InvalidInput("berth_placement.metrics", metrics, "a mapping of names to values")
    _unknown, of_scheduler, of_metrics = together(
        [
            functools.partial(_check_names, given, metrics, known),
            functools.partial(_all_read, "berth_placement", given, known),
            functools.partial(_all_read, "berth_placement.metrics", metrics, METRICS),
        ]
    )
    options = Options(of_scheduler)
    options["metrics"] = of_metrics
    options["driver"] = _driver(options["driver"])
    return options


def _all_read(field, given, known):
    """The options of ``known``, {name: (default, lowest)}, each as given or by default."""
    wanted = [name for name in given if name in known]
    values = together(functools.partial(_read, "%s.%s" % (field, name), given[name], *known[name]) for name in wanted)
    return {**{name: _copy(default) for name, (default, _low) in known.items()}, **dict(zip(wanted, values))}


def _check_names(given, metrics, known):
    unknown = sorted(set(given) - set(known) - WITHOUT_EFFECT) + sorted(
        "metrics." + name for name in set(metrics) - set(METRICS)
    )
    if unknown:
        names = list(known) + ["metrics." + name for name in METRICS]
        hint = " ".join("%s: %s" % (name, did_you_mean(name, names)) for name in unknown)
        raise UnknownOption("berth_placement", unknown, "options of placement", hint=hint)


def _driver(given):
    """Return Nova's name of the driver; older Novas wrote filter_scheduler."""
    driver = str(given).replace("_scheduler", "")
    rule = "one of " + ", ".join(DRIVERS)
    if driver == "caching":
        raise DriverRemoved("berth_placement.driver", given, rule, hint=NO_CACHING)
    if driver not in DRIVERS:
        raise InvalidInput("berth_placement.driver", given, rule, hint=did_you_mean(driver, DRIVERS))
    return driver


def _copy(value):
    return list(value) if isinstance(value, list) else dict(value) if isinstance(value, dict) else value


def _read(field, value, default, low):
    if value is None and default is None:
        return None
    if isinstance(default, bool):
        return _read_flag(field, value)
    if isinstance(default, list):
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(field, value, "a list")
        return list(value)
    if isinstance(default, dict):
        if not isinstance(value, dict):
            raise InvalidInput(field, value, "an object")
        return dict(value)
    if isinstance(default, (int, float)) or field.endswith("max_placement_results"):
        return _read_number(field, value, float if isinstance(default, float) else int, low)
    return value if value is None else str(value)


def _read_flag(field, value):
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "yes", "1", "on", "false", "no", "0", "off"):
        raise InvalidInput(field, value, "true or false")
    return text in ("true", "yes", "1", "on")


def _read_number(field, value, kind, low):
    rule = ("a number" if kind is float else "a whole number") + ("" if low is None else " from %g" % low)
    try:
        number = kind(value)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput(field, value, rule)
    if (
        isinstance(value, bool)
        or (isinstance(number, float) and not math.isfinite(number))
        or (low is not None and number < low)
        or (kind is int and number != float(value))
    ):
        raise InvalidInput(field, value, rule)
    return number
