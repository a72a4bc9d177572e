# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates count no more: revoked by the name of their host, and judged by openssl as libvirt's TLS would."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import authority as ca
from ansible_collections.berth.kvm.plugins.plugin_utils.revoked import Signed


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "ca")


def book_of(directory):
    return Signed(ca.Authority(directory, "libvirt"), directory)


def sign(book, host):
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    asked = asked.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    certificate = book.authority.sign(asked.public_bytes(serialization.Encoding.PEM).decode(), [host], 730)
    book.note(host, certificate)
    return certificate


def accepted(tmp_path, book, certificate, moment=None):
    """Whether openssl takes the certificate at that moment, or now, with the list of revoked ones."""
    for name, text in (("ca.pem", book.authority.text), ("crl", book.text), ("one", certificate)):
        (tmp_path / name).write_text(text)
    when = ["-attime", str(int(moment.timestamp()))] if moment else []
    argv = ["openssl", "verify", *when, "-crl_check", "-CAfile", "ca.pem", "-CRLfile", "crl", "one"]
    return subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_all_certificates_of_a_host_are_revoked_and_no_others(directory, tmp_path):
    book = book_of(directory)
    first, second, other = sign(book, "kvm3"), sign(book, "kvm3"), sign(book, "kvm1")
    assert book.text == "" and not book.lacks("")
    assert book.revoke("kvm3") == 2
    again = book_of(directory)
    assert [accepted(tmp_path, again, one) for one in (first, second, other)] == [False, False, True]
    assert again.has_revoked(first) and not again.has_revoked(other)
    assert (again.revoke("kvm3"), again.text) == (0, book.text)  # twice is once


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_host_that_is_prepared_again_gets_a_certificate_that_counts(directory, tmp_path):
    book = book_of(directory)
    sign(book, "kvm3")
    book.revoke("kvm3")
    assert accepted(tmp_path, book, sign(book, "kvm3"))


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_the_list_goes_on_when_its_authority_is_renewed(directory, tmp_path, monkeypatch):
    """With its key: the old certificate of the authority and the new one are both trusted, and so is the list."""
    book = book_of(directory)
    gone, other = sign(book, "kvm3"), sign(book, "kvm1")
    book.revoke("kvm3")
    monkeypatch.setattr(ca, "AUTHORITY_DAYS", 5000)
    monkeypatch.setattr(ca, "_is_due", lambda _certificate: True)
    renewed = book_of(directory)
    assert renewed.authority.text != book.authority.text
    assert [accepted(tmp_path, renewed, one) for one in (gone, other)] == [False, True]


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_list_does_not_end_with_the_first_certificate_of_its_authority(directory, tmp_path, monkeypatch):
    """The authority is renewed in time and nothing is revoked since: a list that ended would have libvirt refuse everybody."""
    book = book_of(directory)
    gone = sign(book, "kvm3")
    book.revoke("kvm3")
    held, end = book.text, book.authority.certificate.not_valid_after_utc
    monkeypatch.setattr(ca, "now", lambda: end - datetime.timedelta(days=100))
    renewed = book_of(directory)
    other, later = sign(renewed, "kvm1"), end + datetime.timedelta(days=1)
    assert renewed.authority.certificate.not_valid_after_utc > later
    renewed.take_over(held)
    assert renewed.lacks(held) and not renewed.lacks(renewed.text)
    assert accepted(tmp_path, renewed, other, later) and not accepted(tmp_path, renewed, gone)
    assert book_of(directory).text == renewed.text  # signed anew once


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_host_whose_clock_is_behind_takes_the_others_also_with_the_list(directory, tmp_path, monkeypatch):
    """It would else refuse everybody until its clock has come to the moment of the last removal."""
    today = ca.now()
    monkeypatch.setattr(ca, "now", lambda: today - datetime.timedelta(days=10))
    book = book_of(directory)
    gone, other = sign(book, "kvm3"), sign(book, "kvm1")
    monkeypatch.setattr(ca, "now", lambda: today)
    book.revoke("kvm3")
    behind = today - datetime.timedelta(days=2)
    assert [accepted(tmp_path, book, one, behind) for one in (gone, other)] == [False, True]


def test_a_host_lacks_the_list_until_it_has_all_of_it(directory):
    book = book_of(directory)
    sign(book, "kvm3"), sign(book, "kvm4")
    book.revoke("kvm3")
    old = book.text
    book.revoke("kvm4")
    assert [book.lacks(held) for held in ("", old, book.text)] == [True, True, False]


def test_an_authority_from_a_backup_takes_over_the_list_that_a_host_has(directory, tmp_path):
    """Else it would give out a shorter one, and a certificate that was revoked would count again."""
    book = book_of(directory)
    certificate = sign(book, "kvm3")
    shutil.copytree(directory, tmp_path / "backup")
    (tmp_path / "backup").chmod(0o700)
    book.revoke("kvm3")
    dry = Signed(book.authority, str(tmp_path / "backup"), dry=True)
    dry.take_over(book.text)
    assert not dry.lacks(book.text) and not dry.has_revoked(certificate)
    restored = book_of(str(tmp_path / "backup"))
    restored.take_over(book.text)
    assert book_of(str(tmp_path / "backup")).has_revoked(certificate)


@pytest.mark.parametrize("text", ["", "nothing", "other"])
def test_a_list_that_the_authority_did_not_sign_is_nobodys(directory, tmp_path, text):
    book = book_of(directory)
    other = Signed(ca.Authority(str(tmp_path / "other"), "libvirt"), str(tmp_path / "other"))
    certificate = sign(other, "kvm1")
    other.revoke("kvm1")
    book.take_over(other.text if text == "other" else text)
    assert book.text == "" and not book.has_revoked(certificate)


def test_a_certificate_of_another_host_is_not_noted_as_a_hosts_own(directory):
    """A host may show any certificate: with kvm3 the one of kvm1 would be revoked."""
    book = book_of(directory)
    certificate = sign(book, "kvm1")
    book.note("kvm3", certificate)
    assert book.revoke("kvm3") == 0 and not book.has_revoked(certificate)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_certificate_that_has_ended_by_this_machines_clock_is_revoked_too(directory, tmp_path, monkeypatch):
    """A controller whose clock was ahead would else leave a removed host with certificates that count."""
    book = book_of(directory)
    certificate = sign(book, "kvm3")
    later = ca.now() + datetime.timedelta(days=731)
    monkeypatch.setattr(ca, "now", lambda: later)
    assert book.revoke("kvm3") == 1 and not accepted(tmp_path, book, certificate)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
@pytest.mark.parametrize("ahead", [datetime.timedelta(hours=2), datetime.timedelta(days=3653)])
def test_what_was_signed_when_the_clock_was_ahead_is_signed_anew_when_it_is_right(
    directory, tmp_path, monkeypatch, ahead
):
    """Authority, certificate and list: otherwise every host would refuse every other until that time has come."""
    today = ca.now()
    monkeypatch.setattr(ca, "now", lambda: today + ahead)
    early = book_of(directory)
    gone, held = sign(early, "kvm3"), {"request": "", "certificate": sign(early, "kvm1")}
    early.revoke("kvm3")
    monkeypatch.setattr(ca, "now", lambda: today)
    book = book_of(directory)
    book.take_over(early.text)
    assert book.authority.reasons({**held, "authority": early.authority.text}, ["kvm1"])
    assert [accepted(tmp_path, book, one) for one in (sign(book, "kvm1"), gone)] == [True, False]
    assert book.lacks(early.text) and not book.lacks(book.text)


def test_a_dry_look_writes_nothing(directory, tmp_path):
    book = book_of(directory)
    certificate = sign(book, "kvm3")
    dry = Signed(ca.Authority(directory, "libvirt", dry=True), directory, dry=True)
    assert dry.revoke("kvm3") == 1 and not book_of(directory).has_revoked(certificate)
    nowhere = str(tmp_path / "nowhere")
    assert Signed(ca.Authority(nowhere, "libvirt", dry=True), nowhere, dry=True).revoke("kvm3") == 0


@pytest.mark.parametrize("name", ["libvirt-signed.json", "libvirt-crl.pem"])
def test_a_damaged_file_is_an_error_that_names_it_and_one_from_a_backup_is_used(directory, tmp_path, name):
    book = book_of(directory)
    certificate = sign(book, "kvm3")
    book.revoke("kvm3")
    path = tmp_path / "ca" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:10])
    with pytest.raises(ca.AuthorityUnsafe, match=name) as refused:
        book_of(directory)
    assert refused.value.hint == input_hints.bring_authority_key_back(name)
    path.write_bytes(whole)
    assert book_of(directory).has_revoked(certificate)


@pytest.mark.parametrize("number", ["0", "-5", "9" * 60, "web1"])
def test_a_number_that_no_certificate_has_is_damage_before_anything_is_revoked(directory, tmp_path, number):
    sign(book_of(directory), "kvm3")
    (tmp_path / "ca" / "libvirt-signed.json").write_text('{"kvm3": {"%s": "2030-01-01"}}' % number)
    with pytest.raises(ca.AuthorityUnsafe, match="libvirt-signed.json"):
        book_of(directory)


def test_a_list_of_beginnings_without_an_end_is_read_at_once(directory):
    """Each beginning was looked through to the end of the text: hours for a megabyte."""
    book = book_of(directory)
    before = time.process_time()
    assert book._numbers("-----BEGIN X509 CRL-----\n" * 40000) is None
    assert time.process_time() - before < 2
