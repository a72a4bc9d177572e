# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps QEMU's user from a file or directory is found by trying, and named with the command that helps."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import types
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable, paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import as_qemu, doctor, preparation

QEMU = (64055, 64055)
CAPABILITIES = """<capabilities><host><secmodel><model>dac</model><doi>0</doi>
<baselabel type='kvm'>+64055:+64055</baselabel></secmodel></host></capabilities>"""
LIBVIRT = types.SimpleNamespace(getCapabilities=lambda: CAPABILITIES)

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user"),
    pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv"),
]


@pytest.fixture
def top():
    """A directory that everybody may enter: those of pytest are closed."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture
def place(top):
    for name in ("a", "a/b"):
        (top / name).mkdir()
        (top / name).chmod(0o755)
    (top / "a" / "b" / "file with a space").touch()
    (top / "a" / "b" / "file with a space").chmod(0o644)
    return top / "a" / "b" / "file with a space"


def test_what_anybody_may_read_is_open(place):
    assert as_qemu.closed(QEMU, [str(place)], [str(place.parent)]) == []
    assert as_qemu.closed(QEMU) == []


@pytest.mark.parametrize("part", ["", "b", "b/file with a space"])
def test_the_first_thing_on_the_way_that_keeps_qemu_out_is_named(place, part):
    shut = place.parent.parent / part
    shut.chmod(0o600 if shut.is_file() else 0o700)
    assert as_qemu.closed(QEMU, [str(place), str(place)]) == [str(shut)]
    assert as_qemu.closed((0, 0), [str(place)]) == [], "as root, QEMU may"


def test_its_group_may_be_enough(place):
    os.chown(place, 0, QEMU[1])
    place.chmod(0o640)
    assert as_qemu.closed(QEMU, [str(place)]) == []


@pytest.mark.follows("let_qemu_in")
def test_the_command_that_is_told_lets_it_in(place):
    place.parent.chmod(0o700)
    with pytest.raises(HostNotPrepared, match="may not enter") as refused:
        as_qemu.check(QEMU, [str(place)])
    command = "chmod o+x %s" % shlex.quote(str(place.parent))
    assert command in refused.value.hint
    subprocess.run(command, shell=True, check=True)  # noqa: S602 -- as a person would
    as_qemu.check(QEMU, [str(place)])


@pytest.mark.follows("let_qemu_in")
def test_a_key_is_opened_to_qemu_alone_and_never_to_everybody(place):
    place.chmod(0o600)
    with pytest.raises(HostNotPrepared, match="cannot read") as refused:
        as_qemu.check(QEMU, [str(place)])
    command = "setfacl -m u:64055:r %s" % shlex.quote(str(place))
    assert command in refused.value.hint and "chmod" not in refused.value.hint
    if shutil.which("setfacl"):
        subprocess.run(command, shell=True, check=True)  # noqa: S602 -- as a person would
        as_qemu.check(QEMU, [str(place)])
        assert as_qemu.closed((64056, 64056), [str(place)]) == [str(place)]


def test_the_user_is_that_of_libvirt():
    assert as_qemu.user(CAPABILITIES) == QEMU
    assert as_qemu.user("<capabilities/>") == (0, 0)


def test_directories_are_made_with_their_mode_whatever_the_umask_is(top):
    before = os.umask(0o077)
    try:
        durable.make_directories(str(top / "x" / "y" / "z"), 0o755)
        os.close(durable.open_directory(str(top / "state"), create=True, mode=0o755))
    finally:
        os.umask(before)
    made = [top / "x", top / "x" / "y", top / "x" / "y" / "z", top / "state"]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o755] * 4


def test_a_pool_of_ours_is_opened_and_one_with_files_of_others_is_told(top):
    pool = top / "pool"
    paths.make_directory(str(pool))
    preparation._make_directories(LIBVIRT, str(pool))
    for path in (pool, pool / "instances"):
        path.chmod(0o700)
    assert preparation._closed(LIBVIRT, str(pool)) == [str(pool)]
    (pool / "somebody's").touch()
    with pytest.raises(HostNotPrepared, match="may not enter %s" % pool):
        preparation._closed(LIBVIRT, str(pool))
    assert pool.stat().st_mode & 0o777 == 0o700
    (pool / "somebody's").unlink()
    preparation._make_directories(LIBVIRT, str(pool))
    assert as_qemu.closed(QEMU, directories=[str(pool / "images"), str(pool / "instances")]) == []


def test_the_doctor_names_it(prepared, top):
    pki = top / "pki"
    (pki / "qemu").mkdir(parents=True)
    pki.chmod(0o755)
    (pki / "qemu" / "ca-cert.pem").touch()
    (pki / "qemu").chmod(0o700)
    prepared.connection.getCapabilities = lambda: CAPABILITIES
    prepared.pool_paths = lambda: []
    found = list(doctor._as_qemu(prepared, str(pki)))
    assert [one["code"] for one in found] == ["ClosedToQemu"] and found[0]["said"].endswith(str(pki / "qemu"))
