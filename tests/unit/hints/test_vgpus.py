# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about vGPUs: after doing what each says the guest starts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins" / "module_utils"))

import fake_libvirt  # noqa: E402
from fake_gpus import FakeGpus  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import VgpuUnavailable  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import mdev, settings  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, vgpus  # noqa: E402

GPU, KIND, INSTANCE = "0000:84:00.0", "nvidia-35", "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MINE = vgpus.own_uuid(INSTANCE, 0)
FOREIGN = vgpus.own_uuid(INSTANCE, 99)
RESOURCES = {"vgpus": [{"parent": GPU, "type": KIND, "uuid": MINE}]}


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    return FakeGpus(tmp_path, monkeypatch).add(GPU, nvidia_35=1)


@pytest.fixture
def host(gpus, tmp_path):
    connection = fake_libvirt.FakeConnection(str(tmp_path), str(tmp_path))
    written = settings.parse({"enabled_mdev_types": [{"type": KIND}]})
    return fake_libvirt.FakeHost(store=None, settings=written, connect=lambda: connection)


def refusal(host):
    with pytest.raises(VgpuUnavailable) as refused:
        mdev.check(host, "web-1", RESOURCES)
    return refused.value.hint


@pytest.mark.follows("enable_mdev_type")
def test_a_type_that_is_enabled_again_is_made(host):
    host.settings = settings.parse({"enabled_mdev_types": [{"type": "nvidia-36"}]})
    hint = refusal(host)
    assert hint == host_hints.enable_mdev_type(KIND, GPU, "kvm1")
    kind, parent = re.search(r"\{type: (.*), parents: \['(.*)'\]\}", hint).groups()
    entries = [{"type": "nvidia-36"}, {"type": kind, "parents": [parent]}]
    host.settings = settings.parse({"enabled_mdev_types": entries})
    mdev.check(host, "web-1", RESOURCES)


@pytest.mark.follows("start_gpu_driver")
def test_a_gpu_that_is_there_again_makes_it(host, gpus):
    gpus.take_out()
    assert refusal(host) == host_hints.start_gpu_driver(GPU, "kvm1")
    (gpus.parents / GPU).symlink_to(gpus.top / "devices/pci0000:80" / GPU)
    mdev.check(host, "web-1", RESOURCES)


@pytest.mark.follows("remove_mdev")
def test_a_device_that_was_removed_is_out_of_the_way(host, gpus):
    gpus.add("0000:85:00.0", nvidia_36=1).make(MINE, "0000:85:00.0", "nvidia-36")
    hint = refusal(host)
    assert hint == host_hints.remove_mdev(MINE, "kvm1")
    text, path = re.search(r"echo (1) > /sys/bus/mdev/devices/(\S+/remove),", hint).groups()
    gpus.write(str(gpus.devices / path), text)
    mdev.check(host, "web-1", RESOURCES)


@pytest.mark.follows("free_vgpus")
def test_a_gpu_of_which_others_let_go_makes_it(host, gpus):
    gpus.make(FOREIGN)
    assert refusal(host) == host_hints.free_vgpus(GPU, "kvm1")
    assert (gpus.parents / GPU / FOREIGN).is_dir(), "it is where the hint says"
    gpus.write(str(gpus.devices / FOREIGN / "remove"), "1")
    mdev.check(host, "web-1", RESOURCES)
