# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request with image properties and extra specs: what is built of it, or what refuses it."""

from __future__ import annotations

import copy
from xml.etree import ElementTree

import pytest
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain_xml
from ansible_collections.berth.kvm.plugins.module_utils.model import guest_features, image_properties
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

UEFI = {"hw_firmware_type": "uefi"}
PINNED = {"hw:cpu_policy": "dedicated"}


def request(properties=None, extra_specs=None, **instance):
    """(spec, seed) of an instance of two vCPUs with a NIC."""
    given = copy.deepcopy(variables())
    given["berth_flavors"] = {"m1": {"vcpus": 2, "memory_mb": 2048, "root_gb": 1, "extra_specs": extra_specs or {}}}
    given["berth_images"]["debian-12"]["properties"] = properties or {}
    for name in ("vmlinuz", "initrd"):
        given["berth_images"][name] = dict(given["berth_images"]["big"], url="https://x/" + name)
    asked = {"inventory_hostname": "web-1", "berth_flavor": "m1", "berth_image": "debian-12", "berth_networks": ["lan"]}
    return build_request({**asked, **instance}, Catalog.from_variables(given))


def rendered(spec, resources=None):
    record = Record(
        uuid=spec["uuid"], name="web-1", project_id="default", role="OWN", generation=[1, 0], token="t",
        phase="building", spec=spec, resources=resources or {},
    )  # fmt: skip
    return ElementTree.fromstring(domain_xml.render(record, domain_xml.Host("kvm", "x86_64", "/pool")))


def split(names):
    """(properties, extra specs) of a mapping of both."""
    flavor = {name: value for name, value in names.items() if name in guest_features.extra_specs() or ":" in name}
    return {name: value for name, value in names.items() if name not in flavor}, flavor


def built(table):
    return [name for name, fate in table.items() if isinstance(fate, image_properties.Built)]


def refusals(properties=None, extra_specs=None):
    with pytest.raises(BerthError) as caught:
        request(properties, extra_specs)
    return [caught.value, *caught.value.also]
