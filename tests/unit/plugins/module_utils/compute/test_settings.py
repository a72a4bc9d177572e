# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is told about itself: defaults, rules, and errors that name the field."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import settings
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, host_settings
from ansible_collections.berth.kvm.plugins.module_utils.model.schema import Whole


def test_no_file_means_the_defaults_of_nova_and_an_unprepared_host(tmp_path):
    """S24: today's ratios, 512 MiB reserved."""
    found = settings.load(tmp_path / "host.json")
    assert not found.prepared
    assert (found.cpu_allocation_ratio, found.ram_allocation_ratio, found.disk_allocation_ratio) == (4.0, 1.0, 1.0)
    assert (found.reserved_host_memory_mb, found.pool, found.domain_type) == (512, "berth", "auto")


def test_what_is_written_reads_back_the_same(tmp_path):
    wanted = settings.parse(
        {"pool": "fast", "cpu_dedicated_set": "2-3", "pci_devices": [{"vendor_id": "8086", "product_id": "10ed"}]}
    )
    path = tmp_path / "host.json"
    path.write_text(json.dumps(wanted.to_dict()))
    assert settings.load(path) == wanted
    assert wanted.prepared


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", 2),
        ("schema", "1"),
        ("uuid", "E083FC1C-E230-5E1E-A5EA-175F6B4C38FE"),
        ("uuid", "host-1"),
        ("pool", "../etc"),
        ("pool", ""),
        ("cpu_allocation_ratio", 0),
        ("cpu_allocation_ratio", float("nan")),
        ("ram_allocation_ratio", float("inf")),
        ("disk_allocation_ratio", True),
        ("reserved_host_cpus", -1),
        ("reserved_host_memory_mb", 1.5),
        ("reserved_host_disk_gb", 10**400),
        ("cpu_dedicated_set", "3-1"),
        ("cpu_dedicated_set", "0-99999"),
        ("cpu_shared_set", "a"),
        ("cpu_shared_set", 3),
        ("domain_type", "xen"),
        ("disabled", "perhaps"),
        ("disabled_reason", "two\nlines"),
        ("disabled_reason", "{{ lookup('pipe', 'id') }}"),
        ("max_concurrent_builds", 0),
        ("traits", ["hw_cpu"]),
        ("traits", "HW_CPU"),
        ("migration_address", "-oProxyCommand=id"),
        ("security_driver_none_ok", None),
        ("pci_devices", {}),
        ("image_directories", "/srv/images"),
        ("image_directories", ["/"]),
        ("image_directories", ["images"]),
        ("image_directories", ["/srv/../etc"]),
        ("image_directories", ["/srv/images/"]),
        ("image_directories", ["/srv/{{ x }}"]),
        ("enabled_mdev_types", ["nvidia-35"]),
        ("enabled_mdev_types", [{"type": "../nvidia-35"}]),
        ("enabled_mdev_types", [{"parents": ["0000:84:00.0"]}]),
        ("enabled_mdev_types", [{"type": "nvidia-35", "parents": ["84:00.0"]}]),
        ("enabled_mdev_types", [{"type": "nvidia-35", "parents": "0000:84:00.0"}]),
        ("enabled_mdev_types", [{"type": "nvidia-35"}, {"type": "nvidia-36"}]),
        ("enabled_mdev_types", [{"type": kind, "parents": ["0000:84:00.0"]} for kind in ("nvidia-35", "nvidia-36")]),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_variable_of_the_inventory(name, value):
    with pytest.raises(settings.SettingsInvalid) as error:
        settings.parse({name: value})
    assert error.value.field.partition("[")[0] == "berth_host_" + name
    assert error.value.rule


@pytest.mark.follows("newer_version")
@pytest.mark.parametrize(
    "written", [{"schema": host_settings.SCHEMA + 1}, {"warp_factor": 9}], ids=["schema", "setting"]
)
def test_settings_of_a_newer_version_are_refused_with_what_to_do_and_kept(written, tmp_path, monkeypatch):
    path = tmp_path / "host.json"
    path.write_text(json.dumps(written))
    with pytest.raises(settings.SettingsInvalid) as refused:
        settings.load(path)
    assert refused.value.hint == host_hints.newer_version() and refused.value.newer
    assert json.loads(path.read_text()) == written
    monkeypatch.setitem(settings.CHECKS, "schema", Whole(1, 2))
    assert "warp_factor" in written or settings.load(path).prepared


def test_that_settings_are_of_a_newer_version_is_not_read_from_a_hint(tmp_path, monkeypatch):
    """Two hints may have one text: a file with a wrong value is written anew all the same."""
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"max_concurrent_builds": 0}))
    monkeypatch.setattr(host_hints, "newer_version", lambda: None)
    with pytest.raises(settings.SettingsInvalid) as refused:
        settings.load(path)
    assert refused.value.hint == host_hints.write_settings_anew(path) and not refused.value.newer


@pytest.mark.parametrize(
    "device",
    [
        {"vendor_id": "8086"},
        {"vendor_id": "8086", "product_id": "0x10"},
        {"vendor_id": "8086", "product_id": "10ed", "address": "81:00.0"},
    ],
)
def test_a_bad_pci_device_is_named_with_its_place_in_the_list(device):
    good = {"vendor_id": "8086", "product_id": "10ed", "address": "0000:81:00.0"}
    with pytest.raises(settings.SettingsInvalid) as error:
        settings.parse({"pci_devices": [good, device]})
    assert error.value.field.startswith("berth_host_pci_devices[1]")


def test_a_gpu_offers_the_type_that_names_it_else_the_one_that_names_none():
    found = settings.parse({"enabled_mdev_types": [{"type": "a", "parents": ["0000:84:00.0"]}, {"type": "b"}]})
    assert [found.mdev_type(parent) for parent in ("0000:84:00.0", "0000:85:00.0")] == ["a", "b"]
    only = settings.parse({"enabled_mdev_types": [{"type": "a", "parents": ["0000:84:00.0"]}]})
    assert only.mdev_type("0000:85:00.0") is None
    assert settings.HostSettings().mdev_type("0000:84:00.0") is None


def test_an_older_version_reads_settings_without_what_it_does_not_know():
    assert "enabled_mdev_types" not in settings.HostSettings().to_dict()
    given = {"enabled_mdev_types": [{"type": "a", "parents": ["0000:84:00.0"]}]}
    assert settings.parse(given).to_dict()["enabled_mdev_types"] == given["enabled_mdev_types"]


@dataclasses.dataclass(frozen=True)
class OneMore(host_settings.HostSettings):
    made_up: int = host_settings._row(3, Whole(0, 9), later=True)


def test_a_row_is_enough_for_a_new_setting(monkeypatch):
    """It has its default, is checked under the name of its variable, and is in the file unless an older version has no need of it."""
    monkeypatch.setattr(settings, "HostSettings", OneMore)
    monkeypatch.setattr(settings, "CHECKS", host_settings.checks_of(OneMore))
    assert settings.parse({}).made_up == 3
    assert settings.parse({"made_up": "5"}).to_dict()["made_up"] == 5
    assert "made_up" not in settings.parse({"made_up": 0}).to_dict()
    with pytest.raises(settings.SettingsInvalid, match="berth_host_made_up"):
        settings.parse({"made_up": 10})


def test_an_unknown_setting_is_an_error_with_the_nearest_name():
    with pytest.raises(settings.SettingsInvalid, match="Did you mean berth_host_cpu_allocation_ratio"):
        settings.parse({"cpu_alocation_ratio": 2.0})


def test_a_cpu_is_in_one_set_only():
    with pytest.raises(settings.SettingsInvalid, match="CPU 3 is in cpu_dedicated_set too"):
        settings.parse({"cpu_dedicated_set": "2-3", "cpu_shared_set": "3-5"})


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("disabled", "true", True),
        ("disabled", "No", False),
        ("disabled", "1", True),
        ("max_concurrent_builds", "8", 8),
        ("cpu_allocation_ratio", "1.5", 1.5),
        ("cpu_allocation_ratio", "2", 2.0),
    ],
)
def test_a_setting_may_be_the_text_that_the_command_line_or_a_survey_gives(name, text, value):
    assert getattr(settings.parse({name: text}), name) == value


@pytest.mark.parametrize(
    "name, text",
    [("disabled", "maybe"), ("disabled", "2"), ("max_concurrent_builds", "8.5"), ("max_concurrent_builds", "0"),
     ("max_concurrent_builds", "\u0668"), ("max_concurrent_builds", "8 "), ("cpu_allocation_ratio", "nan"),
     ("cpu_allocation_ratio", "1e2"), ("cpu_allocation_ratio", "-1")],
)  # fmt: skip
def test_no_other_text_is_a_truth_value_or_a_number(name, text):
    with pytest.raises(settings.SettingsInvalid, match="berth_host_" + name):
        settings.parse({name: text})


def test_a_text_in_the_file_of_the_settings_is_refused():
    """A run writes numbers and truth values."""
    with pytest.raises(settings.SettingsInvalid):
        settings.parse({"disabled": "true"}, from_file=True)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff", b'{"a": ' * 100000, b" " * (settings.MAX_BYTES + 1)])
def test_a_file_that_is_no_object_is_a_typed_error(tmp_path, text):
    path = tmp_path / "host.json"
    path.write_bytes(text)
    with pytest.raises(settings.SettingsUnreadable):
        settings.load(path)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,^2", {0, 1, 3}),
        ("^2,0-3", {0, 1, 3}),
        (" 1 , 5-6 ,", {1, 5, 6}),
    ],
)
def test_cpu_sets_are_read_as_nova_reads_them(text, cpus):
    assert settings.parse({"cpu_shared_set": text}).shared_cpus() == cpus


@given(st.sets(st.integers(0, host_settings.MAX_CPU), max_size=50))
def test_every_list_of_cpus_reads_back(cpus):
    assert settings.parse({"cpu_shared_set": ",".join(map(str, cpus))}).shared_cpus() == cpus


@examples(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(list(host_settings.CHECKS)),
        st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.lists(st.text())),
    )
)
def test_whatever_is_in_the_file_gives_settings_or_a_typed_error(data):
    try:
        found = settings.parse(data)
    except (settings.SettingsInvalid, settings.SettingsUnreadable):
        return
    assert settings.parse(found.to_dict()) == found


@pytest.mark.follows("run_as_root")
def test_settings_that_only_root_may_read_are_read_by_root(tmp_path, monkeypatch):
    path = tmp_path / "host.json"
    path.write_text("{}")

    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as ordinary:
        ordinary.setattr("builtins.open", refuse)
        with pytest.raises(settings.SettingsUnreadable) as caught:
            settings.load(str(path))
    assert caught.value.hint == host_hints.run_as_root()
    assert settings.load(str(path)).prepared


@pytest.mark.parametrize(
    "name, value",
    [
        ("custom_resources", {"VCPU": 4}),
        ("custom_resources", {"CUSTOM_gold": 4}),
        ("custom_resources", {"CUSTOM_GOLD": 0}),
        ("custom_resources", {"CUSTOM_GOLD": True}),
        ("custom_resources", ["CUSTOM_GOLD"]),
        ("stats", {"a:b": "c"}),
        ("stats", {"tier": "two\nlines"}),
        ("stats", {"tier": None}),
        ("stats", "gold"),
    ],
)
def test_what_no_resource_or_stat_can_be_is_refused_by_its_variable(name, value):
    with pytest.raises(settings.SettingsInvalid) as error:
        settings.parse({name: value})
    assert error.value.field.startswith("berth_host_" + name)


def test_resources_and_stats_of_ones_own_are_written_only_where_they_are_set():
    """A version that does not know them reads the settings of a host without them."""
    assert not {"custom_resources", "stats"} & set(settings.parse({}).to_dict())
    own = settings.parse({"custom_resources": {"CUSTOM_GOLD": 2}, "stats": {"tier": "gold", "rack": 7}})
    assert (own.stats, settings.parse(json.loads(json.dumps(own.to_dict())), from_file=True)) == (
        {"tier": "gold", "rack": "7"},
        own,
    )
