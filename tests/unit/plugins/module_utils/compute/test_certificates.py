# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where keys and certificates lie on a host, for whom, and what is done again."""

from __future__ import annotations

import os
import shutil

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import certificates

GROUP = 4242
SIGNED = {
    use: {"certificate": use + " certificate\n", "authority": use + " authority\n"} for use in certificates.PLACES
}

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for owners"),
]


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "daemons", lambda: ["7:1"])
    return lambda dry=False: certificates.Certificates(GROUP, dry, str(tmp_path / "pki"), str(tmp_path / "run"))


def test_keys_are_made_once_and_stay(make):
    first, again = make(), make()
    asked = first.held()
    assert len(first.changed) == 4 and all("CERTIFICATE REQUEST" in entry["request"] for entry in asked.values())
    key = first._read("qemu/server-key.pem")
    again.held()
    assert not again.changed and again._read("qemu/server-key.pem") == key


def test_a_dry_look_makes_nothing(make, tmp_path):
    assert {tuple(entry.values()) for entry in make(dry=True).held().values()} == {("", "", "", "")}
    assert not (tmp_path / "pki").exists()


def test_libvirts_key_is_roots_alone_and_qemus_for_its_group(make, tmp_path):
    first = make()
    first.held()
    first.install(SIGNED)
    modes = {
        path.relative_to(tmp_path / "pki").as_posix(): (path.stat().st_mode & 0o777, path.stat().st_gid)
        for path in (tmp_path / "pki").rglob("*.pem")
    }
    secret = {name: rights for name, rights in modes.items() if "key" in name}
    assert secret == {
        "libvirt/private/serverkey.pem": (0o600, 0),
        "libvirt/private/clientkey.pem": (0o600, 0),
        "qemu/server-key.pem": (0o640, GROUP),
        "qemu/client-key.pem": (0o640, GROUP),
    }
    assert set(modes.values()) - set(secret.values()) == {(0o644, 0)} and len(modes) == 10
    assert certificates.missing(str(tmp_path / "pki")) == []


def test_the_restart_is_noted_before_the_first_file_changes(make, monkeypatch):
    """Else a run that ends in between leaves a libvirt with old certificates for ever."""
    certificates = make()
    certificates.held()
    monkeypatch.setattr(certificates, "_put", lambda *what, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        certificates.install(SIGNED)
    assert gate.needs_restart(certificates.run_dir)


def test_a_file_that_others_may_read_is_seen_and_tightened(make, tmp_path):
    certificates = make()
    certificates.held()
    path = tmp_path / "pki" / "libvirt" / "private" / "serverkey.pem"
    path.chmod(0o644)
    assert [name for name, _mode, _gid in make().loose()] == [str(path)]
    make().tighten()
    assert path.stat().st_mode & 0o777 == 0o600 and not make().loose()


def test_nothing_is_installed_without_a_key(make):
    with pytest.raises(HostNotPrepared, match="no key"):
        make().install(SIGNED)


@pytest.mark.parametrize(
    "models, group",
    [
        ("<secmodel><model>dac</model><baselabel type='kvm'>+64055:+107</baselabel></secmodel>", 107),
        ("<secmodel><model>apparmor</model></secmodel>", 0),
    ],
)
def test_the_group_that_qemu_runs_as_is_libvirts_word(models, group):
    assert certificates.qemu_group("<capabilities><host>%s</host></capabilities>" % models) == group


def test_a_long_list_of_what_is_revoked_is_read_whole(make):
    """One that came back cut off would be written anew, with a restart of libvirt, in each run."""
    first = make()
    first.held()
    text = "-----BEGIN X509 CRL-----\n" + "A" * 200000 + "\n"
    first.install({"libvirt": {"revoked": text}})
    again = make()
    assert again.held()["libvirt"]["revoked"] == text
    again.install({"libvirt": {"revoked": text}})
    assert not again.changed
