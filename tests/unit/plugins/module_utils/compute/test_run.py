# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the host have limits of time, CPU time and memory: an image's header may ask for any amount."""

from __future__ import annotations

import sys
import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import run as programs
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, ImageInvalid
from ansible_collections.berth.kvm.plugins.module_utils.compute.run import run

# Prints the address space in KiB that 64 threads have reserved, as many as qemu-img starts.
THREADS = """
import threading
barrier = threading.Barrier(64)
def work():
    kept = [bytearray(100000) for _turn in range(10)]
    barrier.wait(30)
threads = [threading.Thread(target=work) for _turn in range(64)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmPeak")][0])
"""


def test_a_program_gets_so_much_memory_and_cpu_time_and_no_more():
    said = run(["sh", "-c", "ulimit -v; ulimit -t; ulimit -c"], timeout=60).split()
    assert said == [str(programs.MEMORY // 1024), "60", "0"]


def test_the_threads_of_a_program_share_pools_of_memory_so_that_many_cpus_do_not_exceed_the_limit():
    assert run(["sh", "-c", "echo $MALLOC_ARENA_MAX"]) == "2\n"
    peak = int(run([sys.executable, "-c", THREADS]))
    assert peak < programs.MEMORY >> 10, "KiB of address space with 64 threads"


def test_a_program_that_exceeds_a_limit_is_quoted_with_the_limits():
    with pytest.raises(BuildFailed) as caught:
        run(["sh", "-c", "echo qemu: no more >&2; kill -ABRT $$"], timeout=60)
    assert str(caught.value) == (
        "sh ended with -6: it took more CPU time or memory than it may (60 s, 2048 MiB). It wrote: qemu: no more"
    )


def test_a_host_that_starts_no_more_threads_is_not_the_images_fault_so_that_another_host_is_tried():
    script = "echo qemu: qemu_thread_create: Resource temporarily unavailable >&2; kill -ABRT $$"
    with pytest.raises(BuildFailed, match="qemu_thread_create") as caught:
        run(["sh", "-c", script], over=ImageInvalid)
    assert caught.value.retryable


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
