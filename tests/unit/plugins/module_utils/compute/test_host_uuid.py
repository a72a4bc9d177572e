# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose firmware has no uuid gets another one at each start of libvirt, unless libvirt's configuration has one."""

from __future__ import annotations

import stat

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import preparation

UUID = "6f2c0a52-3c6e-4d59-8d0b-3a1c9d7f1e2a"
OTHERS = b'# a comment with \xff\n#host_uuid = "0"\n#host_uuid_source = "smbios"\nlisten_tls = 0\n'


@pytest.fixture
def libvirt(tmp_path, monkeypatch):
    """The directory of libvirt's configuration, of a host whose firmware has no uuid."""
    monkeypatch.setattr(preparation, "CONFIGURATION", str(tmp_path))
    monkeypatch.setattr(preparation, "FIRMWARE", str(tmp_path / "product_uuid"))
    return tmp_path


@pytest.mark.parametrize("files", [["libvirtd.conf"], ["virtqemud.conf"], ["libvirtd.conf", "virtqemud.conf"]])
def test_the_uuid_is_written_once_to_what_is_there_and_all_else_stays(files, libvirt):
    for name in files:
        (libvirt / name).write_bytes(OTHERS)
        (libvirt / name).chmod(0o640)
    assert not preparation.is_uuid_kept(UUID)
    preparation.keep_uuid(UUID)
    written = {path.name: path.read_bytes() for path in libvirt.iterdir()}
    assert sorted(written) == files
    for name, content in written.items():
        line, others = content.split(b"\n", 1)
        assert line.startswith(b'host_uuid = "%s"' % UUID.encode()) and others == OTHERS
        assert stat.S_IMODE((libvirt / name).stat().st_mode) == 0o640
    assert preparation.is_uuid_kept(UUID)
    preparation.keep_uuid(UUID)
    assert {path.name: path.read_bytes() for path in libvirt.iterdir()} == written


def test_a_configuration_that_is_a_link_stays_one_and_the_file_gets_the_uuid(libvirt, tmp_path):
    (tmp_path / "elsewhere").write_bytes(OTHERS)
    (libvirt / "libvirtd.conf").symlink_to("elsewhere")
    preparation.keep_uuid(UUID)
    assert (libvirt / "libvirtd.conf").is_symlink() and preparation.is_uuid_kept(UUID)
    assert (tmp_path / "elsewhere").read_bytes().endswith(OTHERS)


def test_without_any_configuration_libvirtd_gets_one(libvirt):
    preparation.keep_uuid(UUID)
    assert preparation.is_uuid_kept(UUID) and [path.name for path in libvirt.iterdir()] == ["libvirtd.conf"]


def test_a_uuid_of_the_firmware_is_kept_by_itself_and_junk_there_is_not(libvirt):
    (libvirt / "product_uuid").write_text(UUID.upper() + "\n")
    assert preparation.is_uuid_kept(UUID)
    (libvirt / "product_uuid").write_text("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n")
    assert not preparation.is_uuid_kept(UUID)


@pytest.mark.parametrize(
    "line", ['host_uuid = "00000000-1111-2222-3333-444444444444"', ' host_uuid_source="machine-id"']
)
def test_what_somebody_has_set_stays(line, libvirt):
    (libvirt / "libvirtd.conf").write_text("x = 1\n%s\n" % line)
    assert preparation.is_uuid_kept(UUID)
    preparation.keep_uuid(UUID)
    assert (libvirt / "libvirtd.conf").read_text() == "x = 1\n%s\n" % line
