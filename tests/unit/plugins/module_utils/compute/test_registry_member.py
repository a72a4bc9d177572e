# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine becomes a member of the registry, stays as it is when nothing changed, keeps backups and takes one back."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import etcd_process
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import registry_member
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact, Write
from ansible_collections.berth.kvm.plugins.plugin_utils.etcd import Etcd

THREE = {"kvm1": "192.0.2.1", "kvm2": "192.0.2.2", "kvm3": "kvm3.example.org"}
SETTINGS = {
    "name": "kvm1",
    "members": THREE,
    "quota_gb": 4,
    "hosts_authority": "OF HOSTS\n",
    "backup_directory": "/backups",
    "backups": 2,
}
SIGNED = {"certificate": "CERTIFICATE\n", "authority": "AUTHORITY\n"}
ETC = registry_member.ETC


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The root of a machine with etcd and its user."""
    account = SimpleNamespace(pw_uid=os.geteuid(), pw_gid=os.getegid())
    monkeypatch.setattr(registry_member.pwd, "getpwnam", lambda _name: account)
    monkeypatch.setattr(registry_member.Member, "version", lambda _self: "3.4.23")
    return tmp_path


def prepared(root, dry=False, settings=None, signed=None):
    member = registry_member.Member(dry, str(root))
    member.held()
    member.prepare(settings or SETTINGS, SIGNED if signed is None else signed, "secret")
    return member.changed


def text(root, path):
    return (root / path.lstrip("/")).read_text()


def contents(root):
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_second_run_changes_nothing_and_check_mode_tells_what_a_run_would_write(here):
    told = prepared(here, dry=True)
    assert contents(here) == {}
    written = prepared(here)
    assert sorted(told) == sorted(set(written) - {ETC + "/member.key"}) and ETC + "/etcd.json" in told
    first = contents(here)
    assert prepared(here) == [] and prepared(here, dry=True) == [] and contents(here) == first


def test_the_key_is_made_once_and_never_leaves_the_machine(here):
    member = registry_member.Member(root=str(here))
    held = member.held()
    key = text(here, ETC + "/member.key")
    assert "BEGIN CERTIFICATE REQUEST" in held["request"] and "PRIVATE" in key
    assert "PRIVATE" not in json.dumps(member.held()) and text(here, ETC + "/member.key") == key
    assert (here / "etc/berth-registry/member.key").stat().st_mode & 0o777 == 0o640


def test_clients_need_a_certificate_of_an_authority_and_members_one_of_their_own(here):
    prepared(here)
    config = registry_member.config_of(SETTINGS)
    for side, trusted in (("client", "AUTHORITY\nOF HOSTS\n"), ("peer", "AUTHORITY\n")):
        security = config[side + "-transport-security"]
        assert security["client-cert-auth"] is True and text(here, security["trusted-ca-file"]) == trusted
    urls = [value for name, value in config.items() if name.endswith("-urls")]
    assert len(urls) == 4 and all(url.startswith("https://192.0.2.1:") for url in urls)


def test_a_member_with_a_name_for_an_address_listens_everywhere_and_is_reached_by_its_name():
    config = registry_member.config_of({**SETTINGS, "name": "kvm3"})
    assert config["listen-client-urls"] == "https://0.0.0.0:2379"
    assert config["advertise-client-urls"] == "https://kvm3.example.org:2379"
    assert registry_member.config_of({**SETTINGS, "members": {"kvm1": "2001:db8::1"}})["initial-cluster"] == (
        "kvm1=https://[2001:db8::1]:2380"
    )


@pytest.mark.parametrize(
    "settings, signed, is_due",
    [
        (SETTINGS, {}, False),
        ({**SETTINGS, "quota_gb": 5}, {}, True),
        (SETTINGS, {"authority": "NEWER\n"}, True),
        ({**SETTINGS, "hosts_authority": "NEWER\n"}, {}, True),
        (SETTINGS, {"certificate": "RENEWED\n"}, False),  # etcd reads it at the next connection
        ({**SETTINGS, "backups": 9}, {}, False),
    ],
)
def test_a_member_is_restarted_only_for_what_it_does_not_read_while_it_runs(here, settings, signed, is_due):
    prepared(here)
    running = here / "run/berth-registry/version"
    running.parent.mkdir(parents=True)
    running.write_text(text(here, ETC + "/version"))
    prepared(here, settings=settings, signed=signed)
    assert registry_member.Member(root=str(here)).is_due() is is_due


@pytest.mark.follows("upgrade_members")
def test_a_newer_etcd_is_a_reason_to_restart_and_a_member_that_is_off_needs_none(here, monkeypatch):
    prepared(here)
    running = here / "run/berth-registry/version"
    running.parent.mkdir(parents=True)
    running.write_text(text(here, ETC + "/version"))
    monkeypatch.setattr(registry_member.Member, "version", lambda _self: "3.5.16")
    prepared(here)
    member = registry_member.Member(root=str(here))
    assert member.is_due()
    running.unlink()
    assert not member.is_due()


@pytest.mark.follows("install_etcd")
def test_a_machine_without_etcd_is_told_how_it_gets_it(here, monkeypatch):
    known = registry_member.pwd.getpwnam

    def unknown(name):
        raise KeyError(name)

    monkeypatch.setattr(registry_member.pwd, "getpwnam", unknown)
    with pytest.raises(HostNotPrepared, match="etcd is not installed") as refused:
        prepared(here)
    assert "berth_registry_packages=true" in refused.value.hint
    monkeypatch.setattr(registry_member.pwd, "getpwnam", known)  # the package makes the user
    assert prepared(here)


def test_the_newest_backups_are_kept(here, tmp_path):
    prepared(here, settings={**SETTINGS, "backup_directory": str(tmp_path / "backups")})
    tools, kept = tmp_path / "tools", tmp_path / "backups"
    tools.mkdir()
    kept.mkdir(exist_ok=True)
    (tools / "etcdctl").write_text('#!/bin/sh\nfor last; do :; done\nprintf "%s" "$ETCDCTL_USER" > "$last"\n')
    (tools / "etcdctl").chmod(0o755)
    for day in (1, 2, 3):
        (kept / ("registry-2026010%dT000000Z.db" % day)).write_text("old")
    (kept / "mine.db").write_text("of somebody else")
    script = here / "etc/berth-registry/backup"
    assert script.stat().st_mode & 0o777 == 0o700  # it has a password
    subprocess.run(["sh", str(script)], check=True, env={"PATH": "%s:%s" % (tools, os.environ["PATH"])})
    names = sorted(path.name for path in kept.iterdir())
    assert names[0] == "mine.db" and names[1] == "registry-20260103T000000Z.db" and len(names) == 3
    assert (kept / names[2]).read_text() == "root:secret"


# --- restore, with a real etcd


needs_etcd = pytest.mark.skipif(not etcd_process.IS_HERE, reason="there is no etcd on this machine")


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "snapshot.db"
    (tmp_path / "source").mkdir()
    with etcd_process.running(tmp_path / "source") as members:
        Etcd(members.members).transact(Transact(writes=(Write("/berth/x", b"kept"),)))
        url = "http://127.0.0.1:%d" % members.clients[0]
        command = ["etcdctl", "--endpoints", url, "snapshot", "save", str(path)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "ETCDCTL_API": "3"})
    return str(path)


def restored(root, snapshot, settings=None):
    member = registry_member.Member(root=str(root))
    settings = settings or SETTINGS
    member.restore(settings, snapshot, "token")
    member.prepare(settings, {}, "secret")
    return root / "var/lib/berth-registry"


@needs_etcd
def test_a_snapshot_takes_the_place_of_the_data_which_stay_beside_it(here, snapshot, tmp_path):
    prepared(here)
    (here / "var/lib/berth-registry/data/member").mkdir(parents=True)
    (here / "var/lib/berth-registry/data/member/old").write_text("older")
    state = restored(here, snapshot)
    assert (state / "replaced/member/old").read_text() == "older" and (state / "data/member/snap/db").exists()
    assert not (state / "new").exists()


@needs_etcd
def test_a_file_that_is_no_snapshot_leaves_the_data_as_they_are(here, tmp_path):
    prepared(here)
    (here / "var/lib/berth-registry/data/member").mkdir(parents=True)
    (tmp_path / "wrong.db").write_text("nothing")
    with pytest.raises(registry_member.RegistryNotRestored):
        restored(here, str(tmp_path / "wrong.db"))
    assert (here / "var/lib/berth-registry/data/member").is_dir()


@needs_etcd
@pytest.mark.follows("change_members")
def test_members_change_by_a_restore_alone(here, snapshot):
    prepared(here)
    (here / "var/lib/berth-registry/data/member").mkdir(parents=True)
    before = contents(here)
    fewer = {**SETTINGS, "members": {"kvm1": "192.0.2.1"}}
    with pytest.raises(registry_member.RegistryMembersDiffer) as refused:
        prepared(here, settings=fewer)
    assert "berth.kvm.restore_registry" in refused.value.hint and contents(here) == before
    assert prepared(here) == []  # the old ones are back in the group
    restored(here, snapshot, settings=fewer)
    assert prepared(here, settings=fewer, signed={}) == []


def test_a_new_machine_is_restored_into_a_directory_that_belongs_to_etcd(here, monkeypatch):
    """etcdctl would make it, as root alone may enter it."""
    given = []
    monkeypatch.setattr(registry_member.Member, "_give_to_etcd", lambda _self, path: given.append(path))
    monkeypatch.setattr(registry_member, "run", lambda command, *_more, **_: os.makedirs(command[4].partition("=")[2]))
    state = restored(here, "snapshot.db")
    assert str(state) in given and (state / "data").is_dir()


def test_check_mode_restores_nothing(here):
    prepared(here)
    before = contents(here)
    member = registry_member.Member(True, str(here))
    member.restore(SETTINGS, "/no/such/file", "token")
    assert member.changed == ["/var/lib/berth-registry/data"] and contents(here) == before
