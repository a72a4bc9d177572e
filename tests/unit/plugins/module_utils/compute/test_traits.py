# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traits have the names of os-traits, from what guests can have (S37)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import traits


@pytest.mark.parametrize(
    ("feature", "trait"),
    [
        ("avx2", "HW_CPU_X86_AVX2"),
        ("aes", "HW_CPU_X86_AESNI"),
        ("sse4.1", "HW_CPU_X86_SSE41"),
        ("avx512-vpopcntdq", "HW_CPU_X86_AVX512VPOPCNTDQ"),
        ("vmx", "HW_CPU_X86_VMX"),
        ("pcid", "HW_CPU_X86_INTEL_PCID"),
    ],
)
def test_cpu_features_have_their_trait(feature, trait):
    assert trait in traits.cpu_traits([feature])


def test_a_feature_without_a_trait_is_left_out():
    assert traits.cpu_traits(["invtsc"]) == []


def test_devices_have_their_trait_only_where_they_are_offered():
    enums = {("disk", "bus"): {"virtio", "new"}, ("loader", "secure"): {"no"}}
    assert traits.device_traits(enums) == ["COMPUTE_STORAGE_BUS_VIRTIO"]


@pytest.mark.parametrize(("threads", "expected"), [(1, False), (2, True)])
def test_threads_make_hyperthreading(threads, expected):
    found = traits.host_traits("x86_64", [], {}, threads)
    assert ("HW_CPU_HYPERTHREADING" in found) is expected


def test_x86_features_mean_nothing_on_another_architecture():
    assert "HW_CPU_X86_AESNI" not in traits.host_traits("aarch64", ["aes"], {}, 1)


def test_the_settings_own_traits_are_added():
    assert "CUSTOM_GOLD" in traits.host_traits("x86_64", [], {}, 1, ("CUSTOM_GOLD",))


def test_every_trait_of_the_tables_is_known_to_os_traits():
    known = set(pytest.importorskip("os_traits").get_traits())
    mine = set(traits.cpu_traits(traits.X86_FEATURES)) | {
        trait for table in traits.DEVICES.values() for trait in table.values()
    }
    mine |= set(traits.host_traits("x86_64", [], {}, 2)) | {
        trait for names in traits.ARCHITECTURES.values() for trait in names
    }
    assert mine - known == set()
