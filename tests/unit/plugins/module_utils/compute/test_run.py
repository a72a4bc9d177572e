# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the host have limits of time, CPU time and memory: an image's header may ask for any amount."""

from __future__ import annotations

import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import run as programs
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, ImageInvalid
from ansible_collections.berth.kvm.plugins.module_utils.compute.run import run


def test_a_program_gets_so_much_memory_and_cpu_time_and_no_more():
    said = run(["sh", "-c", "ulimit -v; ulimit -t; ulimit -c"], timeout=60).split()
    assert said == [str(programs.MEMORY // 1024), "60", "0"]


@pytest.mark.parametrize(
    "script", ["kill -XCPU $$", "kill -ABRT $$", "echo qemu-img: Cannot allocate memory >&2; exit 1"]
)
def test_an_image_that_takes_more_is_the_images_fault_and_goes_to_no_other_host(script):
    with pytest.raises(ImageInvalid, match="more CPU time or memory") as caught:
        run(["sh", "-c", script], over=ImageInvalid)
    assert not caught.value.retryable
    with pytest.raises(BuildFailed):
        run(["sh", "-c", script])


@pytest.mark.parametrize("script", ["while :; do :; done", "sleep 60"])
def test_a_program_that_does_not_end_is_ended(script):
    began = time.monotonic()
    with pytest.raises(BuildFailed):
        run(["sh", "-c", script], timeout=1)
    assert time.monotonic() - began < 15


def test_a_program_that_is_missing_is_named():
    with pytest.raises(BuildFailed, match="qemu-imgg is not installed"):
        run(["qemu-imgg", "--version"])
