# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a disk is copied again while its guest writes to it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import precopy
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import RunEnded, TransferFailed

MIB = 1 << 20


class LibvirtError(Exception):
    pass


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setattr(precopy, "require_libvirt", lambda: SimpleNamespace(libvirtError=LibvirtError))


class Copies:
    """``left`` in MiB after each copy; ``error`` ends the copy of that number."""

    def __init__(self, *left, room=1000, error=None):
        self.sizes, self.free, self.error = left, room, error or {}
        self.made, self.taken_back = [], []

    def left(self, number):
        return self.sizes[number] * MIB

    def room(self):
        return self.free * MIB

    def again(self, number):
        if number in self.error:
            raise self.error[number]
        self.made.append(number)

    def take_back(self, number):
        self.taken_back.append(number)


def repeated(copies, rate=8 * MIB):
    precopy.repeat(copies, rate)
    return copies.made


def test_it_is_copied_again_until_little_is_left():
    assert repeated(Copies(200, 40, 8, 3)) == [1, 2, 3]


def test_of_a_guest_at_rest_nothing_is_copied_again():
    assert repeated(Copies(4)) == []


def test_what_a_fast_link_carries_in_a_moment_is_little():
    assert repeated(Copies(200, 40, 8, 3), rate=40 * MIB) == [1, 2]


def test_a_guest_that_writes_as_fast_as_it_is_copied_is_not_copied_for_ever():
    assert repeated(Copies(200, 190, 180)) == [1]
    assert len(repeated(Copies(*(10000 * 0.79**number for number in range(30)), room=10**6))) == precopy.MOST


def test_a_pool_that_what_is_copied_again_might_fill_is_left_alone():
    assert repeated(Copies(200, 3, room=799)) == []
    assert repeated(Copies(200, 3, room=800)) == [1]


@pytest.mark.parametrize("error", [TransferFailed("the link is cut"), LibvirtError("no backup")])
def test_what_a_copy_that_failed_should_have_copied_is_still_to_be_copied(error):
    copies = Copies(200, 40, 8, error={2: error})
    assert repeated(copies) == [1] and copies.taken_back == [2]


def test_a_run_that_has_ended_is_told_so():
    with pytest.raises(RunEnded):
        repeated(Copies(200, error={1: RunEnded("nobody asks")}))


def test_a_checkpoint_that_cannot_be_taken_back_is_left_to_the_copy_of_the_whole(monkeypatch):
    copies = Copies(200, error={1: TransferFailed("QEMU is gone")})

    def gone(_number):
        raise LibvirtError("there is no such checkpoint")

    monkeypatch.setattr(copies, "take_back", gone)
    assert repeated(copies) == []
