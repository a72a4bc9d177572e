# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A delete of an adopted instance removes its disks where they were found, and nothing that is another guest's too."""

from __future__ import annotations

import os

import pytest
from adopt_case import OWN_UUID, Found
from instance_case import Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksUsed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import disk_users, gate, given_up

DELETE_STEPS = ["delete begin", "delete permit", "delete domain", "delete disks", "delete volumes", "delete record"]


@pytest.fixture
def guest(prepared, tmp_path):
    found = Found(prepared, tmp_path)
    iso = tmp_path / "images" / "install.iso"
    iso.write_bytes(b"cd")
    with_cd = found.domain.xml.replace('<target dev="sdb"', '<source file="%s"/><target dev="sdb"' % iso)
    with_cd = with_cd.replace("hvm</type>", "hvm</type><nvram>%s</nvram>" % (tmp_path / "images" / "web1_VARS.fd"))
    (tmp_path / "images" / "web1_VARS.fd").write_bytes(b"variables")
    found.define(with_cd)
    found.domain.createWithFlags()
    return found


def left(guest):
    return sorted(os.listdir(guest.disk.parent))


def test_its_disks_and_uefi_variables_go_and_the_image_in_its_cd_drive_stays(guest):
    guest.adopt()
    assert guest.instance().would_remove() is True and "web1.img" in left(guest)
    assert guest.instance().absent() is True
    assert left(guest) == ["install.iso"]
    assert (guest.record, guest.domain, gate.is_permitted(OWN_UUID, guest.host.run_dir)) == (None, None, False)
    assert guest.instance().absent() is False


def test_what_goes_is_named_by_path_and_size_before(guest):
    guest.adopt()
    assert given_up.by_delete(guest.instance()) == ["sda %s 3 GiB" % guest.disk]


@pytest.mark.parametrize("step", DELETE_STEPS)
def test_a_delete_that_was_killed_is_finished_by_the_next(guest, step):
    guest.adopt()
    with pytest.raises(Killed):
        guest.instance(step).absent()
    guest.instance().absent()
    assert (guest.record, guest.domain, left(guest)) == (None, None, ["install.iso"])


def test_it_is_refused_while_another_guest_has_the_disk(guest):
    guest.adopt()
    other = "6" + OWN_UUID[1:]
    guest.host.connection.defineXMLFlags(guest.domain.xml.replace(OWN_UUID, other).replace("Web_1", "copy"))
    with pytest.raises(DisksUsed, match=other):
        guest.instance().absent()
    assert "web1.img" in left(guest) and guest.domain.isActive()


def test_a_disk_that_another_guest_got_meanwhile_stays(guest):
    guest.adopt()
    other = "6" + OWN_UUID[1:]
    guest.host.connection.defineXMLFlags(guest.domain.xml.replace(OWN_UUID, other).replace("Web_1", "copy"))
    disk_users.remove_found(guest.host.connection, guest.record)
    assert "web1.img" in left(guest)


def test_a_disk_behind_a_link_goes_with_its_link(guest, tmp_path):
    real = tmp_path / "elsewhere.img"
    os.rename(guest.disk, real)
    os.symlink(real, guest.disk)
    guest.adopt()
    guest.instance().absent()
    assert not real.exists() and left(guest) == ["install.iso"]
