# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the disks of an instance are, on a pool that may be one directory on several hosts."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksOfAnotherHost, StateUnsafe
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor as host_doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, state_hints

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MINE, OTHER = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"


@pytest.fixture
def pool(tmp_path):
    """A pool with one disk of the instance, whose owner nobody has said."""
    for path in (tmp_path / "instances", tmp_path / "instances" / WEB):
        paths.make_directory(str(path))
    (tmp_path / "instances" / WEB / "root.qcow2").write_text("what the guest wrote")
    return str(tmp_path)


def files(pool):
    directory = paths.instance(pool, WEB)
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else None


def test_the_owner_is_who_said_so_last(pool):
    assert owner.read(pool, WEB) is None
    for host in (MINE, OTHER):
        owner.write(pool, WEB, host)
        assert owner.read(pool, WEB) == host


@pytest.mark.parametrize("host, is_another", [(None, False), (MINE, False), (OTHER, True)])
def test_disks_are_another_hosts_where_another_has_said_so(pool, host, is_another):
    if host:
        owner.write(pool, WEB, host)
    assert owner.is_another(pool, WEB, MINE) is is_another


def test_an_instance_without_disks_here_is_nobodys(pool):
    assert owner.is_another(pool, OTHER, MINE) is False


def test_disks_of_another_host_are_named_with_their_owner(pool):
    owner.check(pool, WEB, "web1", MINE)
    owner.write(pool, WEB, OTHER)
    with pytest.raises(DisksOfAnotherHost, match=OTHER) as refused:
        owner.check(pool, WEB, "web1", MINE)
    restored = state_hints.own_restored(paths.instance(pool, WEB, "owner"), MINE, "this host")
    assert refused.value.hint == "%s. %s" % (hints.disks_of_another_host("web1", OTHER), restored)
    assert "evacuate --limit web1 -e berth_lost_hosts=%s" % OTHER in refused.value.hint


def test_disks_of_another_host_are_not_removed_and_ones_own_are(pool):
    owner.write(pool, WEB, OTHER)
    with pytest.raises(DisksOfAnotherHost):
        disk.remove_all(pool, WEB, "web1", MINE)
    assert files(pool) == ["owner", "root.qcow2"]
    owner.write(pool, WEB, MINE)
    assert (disk.remove_all(pool, WEB, "web1", MINE), files(pool)) == (True, None)


def test_a_pool_with_an_instance_of_another_host_is_told_from_one_without(pool):
    assert owner.others_in(pool, MINE) is False
    owner.write(pool, WEB, MINE)
    assert owner.others_in(pool, MINE) is False
    owner.write(pool, WEB, OTHER)
    assert owner.others_in(pool, MINE) is True
    assert owner.others_in(os.path.join(pool, "nothing here"), MINE) is False


@pytest.mark.follows("disks_of_another_host")
@pytest.mark.parametrize("act", ["started", "recovered", "rebooted", "present"])
def test_a_host_that_returns_starts_nothing_from_disks_that_another_host_has_taken_over(make_host, wanted, boot, act):
    """Its record says that it owns the instance, and the host that took it over may be silent."""
    host = make_host()
    case = Case(host, wanted())
    case.make()
    if act != "rebooted":
        host.connection.lose_power()
        boot("two")
    before = case.domain.starts
    owner.write(str(host.pool), case.uuid, OTHER)
    acts = {
        "started": lambda: case.instance().started(),
        "recovered": lambda: power.recover(case.instance()),
        "rebooted": lambda: power.reboot(case.instance(), True, 0),
        "present": lambda: power.converge(case.instance(), None, None, power.RUNNING, 0),
    }
    with pytest.raises(DisksOfAnotherHost):
        acts[act]()
    assert case.domain.starts == before
    owner.write(str(host.pool), case.uuid, host.uuid)
    acts[act]()
    assert case.domain.starts == before + 1


@pytest.mark.follows("own_restored")
def test_a_directory_from_a_backup_of_another_host_is_owned_as_the_message_says_and_its_guest_starts(make_host, wanted):
    """The backup was made before the instance moved, so the file beside its disks names the host that it has left."""
    case = Case(make_host(), wanted())
    case.make()
    case.instance().stopped(0)
    assert list(host_doctor._disks(case.host, [case.record])) == []
    owner.write(str(case.host.pool), case.uuid, OTHER)
    (found,) = host_doctor._disks(case.host, [case.record])
    todo = doctor.TODO[found["code"]]("this host", "web1", found["said"])
    with pytest.raises(DisksOfAnotherHost) as refused:
        case.instance().started()
    assert refused.value.hint.endswith(todo)
    command = re.search(r"as root on this host, (printf .*?); then run the same again", refused.value.hint).group(1)
    subprocess.run(command, shell=True, check=True)
    assert case.instance().started() and case.root.exists()


def test_an_owner_that_anybody_could_have_written_is_not_believed(pool):
    owner.write(pool, WEB, MINE)
    os.chmod(paths.instance(pool, WEB, owner.FILE), 0o666)
    with pytest.raises(StateUnsafe):
        owner.is_another(pool, WEB, MINE)


@pytest.mark.parametrize("what", ["its own", "all instances'"])
def test_a_guest_from_whose_directory_somebody_shut_qemu_out_is_let_in_again_by_a_start(prepared, wanted, what):
    """chmod 0700: the guest that runs goes on, a reboot would end it for good."""
    web = Case(prepared, wanted())
    web.make()
    directory = web.root.parent if what == "its own" else web.root.parent.parent
    directory.chmod(0o700)
    power.reboot(web.instance(), False, 0)
    assert directory.stat().st_mode & 0o777 == paths.PASS_MODE


@pytest.mark.follows("close_to_others")
def test_a_delete_of_disks_in_a_directory_that_others_may_write_to_says_what_to_do_and_that_ends_it(prepared, wanted):
    web = Case(prepared, wanted())
    web.make()
    web.root.parent.chmod(0o777)
    with pytest.raises(StateUnsafe, match="instances/%s is owned by .* with mode 0777" % web.uuid) as refused:
        web.instance().absent()
    assert refused.value.hint == state_hints.close_to_others(os.uname().nodename)
    web.root.parent.chmod(0o711)
    assert web.instance().absent() and web.record is None and not web.root.exists()
