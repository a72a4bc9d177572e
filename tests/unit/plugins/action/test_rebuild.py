# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rebuild, from the inventory to what the host of the instance is asked: the image, sent first if it is the controller's, and the seed."""

from __future__ import annotations

import pytest
from held_case import WEB, held, image_asked
from test_delete_volume import controller

from ansible_collections.berth.kvm.plugins.module_utils.model import nics

CHECKSUM = "sha256:" + "0" * 64
RUN = {
    "berth_flavors": {"small": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}},
    "berth_images": {
        "debian": {"url": "http://x/i", "checksum": CHECKSUM, "disk_format": "qcow2"},
        "own": {"upload": "/images/own.qcow2", "checksum": CHECKSUM, "disk_format": "qcow2"},
    },
    "berth_networks_defined": {"dmz": {"type": "bridge", "source": "br1"}},
}
INSTANCE = {"berth_networks": ["dmz"], "berth_ssh_keys": ["ssh-ed25519 AAAA me"]}
FIRST = {"type": "bridge", "source": "br1", "mac": nics.own_mac(WEB, 0)}


@pytest.fixture
def asked(monkeypatch):
    return image_asked(monkeypatch, {"gives_up": ["root disk 1 GiB"]})


def run(image, check_mode=False, **more):
    there = controller(RUN, {**INSTANCE, "berth_image": image, **more}, h1=([held(nics=nics.taken([FIRST]))], []))
    there.register("localhost", __berth_facts={"answers": {}})
    located = there.run("locate_instances", {"instances": ["web1"], "method": "rebuild", "selected": True})
    there.variable_manager.set_host_facts("localhost", {"berth_located": located["ansible_facts"]["berth_located"]})
    values = {**there.task_vars(), "inventory_hostname": "web1"}
    return there.run("operate_instances", {"operation": "rebuild", "may_fail": True}, values, check_mode)


@pytest.mark.parametrize("image, modules", [("debian", ["instance"]), ("own", ["cached_image", "instance"])])
def test_the_host_gets_the_image_the_word_and_a_seed_with_the_addresses_that_it_has(asked, image, modules):
    result = run(image, berth_rebuild_discards="web1")
    assert [module for module, _given in asked[0]] == modules and result["changed"]
    given = asked[0][-1][1]
    assert (given["state"], given["spec"]["image"]["name"], given["discards_root"]) == ("rebuilt", image, "web1")
    assert given["seed"]["ssh_keys"] == INSTANCE["berth_ssh_keys"]
    assert nics.own_mac(WEB, 0) in str(given["seed"]["network_config"])


def test_in_check_mode_no_image_is_sent(asked):
    run("own", check_mode=True)
    assert [module for module, _given in asked[0]] == ["instance"]


def test_an_image_that_does_not_arrive_leaves_the_instance_alone(asked):
    asked[1].append("cached_image")
    result = run("own")
    assert [module for module, _given in asked[0]] == ["cached_image"]
    assert result["error"]["code"] == "UploadFailed" and not result["changed"]
