# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where keys and certificates lie on a host, for whom, and what is done again."""

from __future__ import annotations

import datetime
import os
import shutil

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import as_qemu, certificates, own_certificates
from ansible_collections.berth.kvm.plugins.plugin_utils import authority as ca

GROUP = 4242
TWO_HOURS, TEN_YEARS = datetime.timedelta(hours=2), datetime.timedelta(days=3653)

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for owners"),
]


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "running", lambda: {"7:1": "libvirtd"})
    return lambda dry=False: own_certificates.Certificates(GROUP, dry, str(tmp_path / "pki"), str(tmp_path / "run"))


@pytest.fixture
def sign(tmp_path, monkeypatch):
    """What a controller signs whose clock is that much ahead."""

    def signed(ahead=datetime.timedelta()):
        then = ca.now() + ahead
        asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        asked = asked.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        text = asked.public_bytes(serialization.Encoding.PEM).decode()
        with monkeypatch.context() as patch:
            patch.setattr(ca, "now", lambda: then)
            authorities = {use: ca.Authority(str(tmp_path / "ca"), use) for use in certificates.PLACES}
            return {
                use: {"certificate": authority.sign(text, ["kvm1"], 730), "authority": authority.text}
                for use, authority in authorities.items()
            }

    return signed


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


def test_libvirts_key_is_roots_alone_and_qemus_for_its_group(make, sign, tmp_path):
    first = make()
    first.held()
    first.install(sign())
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


def test_the_restart_is_noted_before_the_first_file_changes(make, sign, monkeypatch):
    """Else a run that ends in between leaves a libvirt with old certificates for ever."""
    certificates = make()
    certificates.held()
    monkeypatch.setattr(certificates, "_put", lambda *what, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        certificates.install(sign())
    assert gate.to_restart(certificates.run_dir)


def test_a_file_that_others_may_read_is_seen_and_tightened(make, tmp_path):
    certificates = make()
    certificates.held()
    path = tmp_path / "pki" / "libvirt" / "private" / "serverkey.pem"
    path.chmod(0o644)
    assert [name for name, _mode, _gid in make().loose()] == [str(path)]
    make().tighten()
    assert path.stat().st_mode & 0o777 == 0o600 and not make().loose()


def test_nothing_is_installed_without_a_key(make, sign):
    with pytest.raises(HostNotPrepared, match="no key"):
        make().install(sign())


@pytest.mark.parametrize("ahead", [TWO_HOURS, TEN_YEARS, -TEN_YEARS])
def test_a_certificate_that_does_not_count_by_the_hosts_clock_replaces_none(make, sign, ahead):
    """libvirt would not start with it, and the next run needs libvirt. Who is wrong, host or controller, is not known."""
    first = make()
    first.held()
    first.install(sign())
    first.changed.clear()
    with pytest.raises(HostNotPrepared, match="(?s)by the clock of .*Nothing was installed") as refused:
        first.install(sign(ahead))
    assert "the same source" in refused.value.hint and not first.changed
    first.install(sign())  # when the clocks agree again
    assert certificates.faults(first.pki) == []


def test_a_certificate_that_does_not_count_yet_is_told_as_one_that_has_ended(make, sign, monkeypatch):
    """As after the host's own clock was set back: a live migration would fail once it has begun."""
    first = make()
    first.held()
    monkeypatch.setattr(own_certificates, "_check_counts", lambda _use, _parts: None)
    for ahead, good in ((datetime.timedelta(), True), (TWO_HOURS, False)):
        first.install(sign(ahead))
        assert [certificates.is_good(place, first.pki) for place in certificates.PLACES.values()] == [good, good]
    assert all("does not count yet" in fault for fault in certificates.faults(first.pki))


@pytest.mark.parametrize(
    "models, group",
    [
        ("<secmodel><model>dac</model><baselabel type='kvm'>+64055:+107</baselabel></secmodel>", 107),
        ("<secmodel><model>apparmor</model></secmodel>", 0),
    ],
)
def test_the_group_that_qemu_runs_as_is_libvirts_word(models, group):
    assert as_qemu.user("<capabilities><host>%s</host></capabilities>" % models)[1] == group


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


def modes_below(top):
    return {path.relative_to(top).as_posix(): path.stat().st_mode & 0o777 for path in top.rglob("*") if path.is_dir()}


MODES = {"CA": 0o755, "libvirt": 0o755, "libvirt/private": 0o700, "qemu": 0o755}


@pytest.fixture(params=[0o022, 0o077], ids="{:03o}".format)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_the_modes_of_directories_and_files_do_not_depend_on_the_umask(umask, make, sign, tmp_path):
    pki, first = tmp_path / "pki", make()
    first.held()
    first.install(sign())
    assert modes_below(pki) == MODES and pki.stat().st_mode & 0o777 == 0o755
    assert make().loose() == []


@pytest.mark.parametrize("name, mode", [("", 0o700), ("qemu", 0o700), ("CA", 0o777), ("libvirt/private", 0o755)])
def test_a_directory_of_ours_with_another_mode_is_set_right(make, sign, tmp_path, name, mode):
    pki, first = tmp_path / "pki", make()
    first.held()
    first.install(sign())
    (pki / name).chmod(mode)
    again = make()
    assert [path for path, _mode, _gid in again.loose()] == [str(pki / name)]
    again.tighten()
    assert modes_below(pki) == MODES and pki.stat().st_mode & 0o777 == 0o755 and make().loose() == []


def test_a_directory_in_which_others_have_files_stays_as_it_is(make, sign, tmp_path):
    pki, first = tmp_path / "pki", make()
    first.held()
    first.install(sign())
    (pki / "rpm-gpg").mkdir()
    for path in (pki, pki / "qemu"):
        path.chmod(0o750)
    os.chown(pki / "qemu", 0, GROUP)
    assert make().loose() == [], "QEMU's group may enter the other one"
    (pki / "rpm-gpg").rmdir()
    assert [path for path, _mode, _gid in make().loose()] == [str(pki)]
