# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rescue, from the inventory to what the host of the instance is asked: the image, sent first if it is the controller's."""

from __future__ import annotations

import pytest
from held_case import held, image_asked
from test_delete_volume import controller

from ansible_collections.berth.kvm.plugins.module_utils.model import operation_hints

CHECKSUM = "sha256:" + "0" * 64
SOURCE = {"url": "http://x/i", "checksum": CHECKSUM, "disk_format": "qcow2"}
RUN = {
    "berth_flavors": {"small": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}},
    "berth_images": {
        "debian": SOURCE,
        "own": {**SOURCE, "url": None, "upload": "/images/own.qcow2"},
        "direct": {**SOURCE, "kernel": {"url": "http://x/k", "checksum": CHECKSUM}},
        "floppy": {**SOURCE, "properties": {"hw_rescue_device": "floppy"}},
        "iso": {**SOURCE, "disk_format": "iso"},
    },
}


@pytest.fixture
def asked(monkeypatch):
    return image_asked(monkeypatch, {"vm_state": "rescued"})


def run(image, check_mode=False):
    more = {} if image is None else {"berth_rescue_image": image}
    there = controller({**RUN, **more}, {"berth_image": "debian"}, h1=([held()], []))
    there.register("localhost", __berth_facts={"answers": {}})
    located = there.run("locate_instances", {"instances": ["web1"], "method": "rescue", "selected": True})
    there.variable_manager.set_host_facts("localhost", {"berth_located": located["ansible_facts"]["berth_located"]})
    values = {**there.task_vars(), "inventory_hostname": "web1"}
    return there.run("operate_instances", {"operation": "rescue", "may_fail": True}, values, check_mode)


@pytest.mark.parametrize(
    "image, modules", [("debian", ["instance"]), ("iso", ["instance"]), ("own", ["cached_image", "instance"])]
)
def test_the_host_gets_the_image_that_is_named(asked, image, modules):
    assert run(image)["changed"] and [module for module, _given in asked[0]] == modules
    given = asked[0][-1][1]
    assert (given["state"], given["rescue_image"]["name"]) == ("rescued", image)
    assert given["rescue_image"]["properties"] == RUN["berth_images"][image].get("properties", {})


def test_in_check_mode_no_image_is_sent(asked):
    run("own", check_mode=True)
    assert [module for module, _given in asked[0]] == ["instance"]


def test_an_image_that_does_not_arrive_leaves_the_instance_alone(asked):
    asked[1].append("cached_image")
    result = run("own")
    assert [module for module, _given in asked[0]] == ["cached_image"]
    assert result["error"]["code"] == "UploadFailed" and not result["changed"]


@pytest.mark.parametrize(
    "image, says",
    [
        ("debain", "there is no image debain"),
        ("direct", "an image that boots by itself"),
        ("floppy", "built are cdrom, disk"),
        (None, operation_hints.name_rescue_image()),
    ],
)
@pytest.mark.follows("name_rescue_image")
def test_an_image_that_cannot_be_booted_is_refused_before_a_host_is_asked(asked, image, says):
    result = run(image)
    assert says in result["msg"] and asked[0] == []
    run("debian")
    assert asked[0]
