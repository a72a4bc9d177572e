# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is signed, for how long, under which names, and whose certificates are left alone."""

from __future__ import annotations

import base64
import datetime
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.plugin_utils import authority as ca
from ansible_collections.berth.kvm.plugins.plugin_utils import trust

NAMES = ("kvm-1", "192.0.2.11", "2001:db8::1")
KEY = ec.generate_private_key(ec.SECP256R1())


def request(key=KEY, name="somebody-else"):
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def held(authority, names=NAMES, days=730, **changes):
    certificate = {
        "request": request(),
        "certificate": authority.sign(request(), names, days),
        "authority": authority.text,
    }
    return {**certificate, **changes}


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path / "ca")


@pytest.fixture
def libvirt(directory):
    return ca.Authority(directory, "libvirt")


def test_the_authorities_are_for_their_owner_only_and_made_once(directory):
    first = [ca.Authority(directory, kind).text for kind in ca.KINDS]
    assert [ca.Authority(directory, kind).text for kind in ca.KINDS] == first
    assert os.stat(directory).st_mode & 0o777 == 0o700
    assert os.stat(directory + "/libvirt-ca.key").st_mode & 0o777 == 0o600


def test_a_host_whose_name_is_longer_than_a_common_name_may_be_is_signed_for_its_whole_name(libvirt):
    """RFC 5280 lets a common name have 64 characters; a DNS name may have 253."""
    name = "kvm-1." + "rack-of-the-second-row." * 10 + "example.org"
    signed = held(libvirt, names=(name,))
    subject = x509.load_pem_x509_certificate(signed["certificate"].encode()).subject
    assert libvirt.reasons(signed, [name]) == []
    assert subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value == name[:64]


@pytest.mark.parametrize("path, mode", [(".", 0o750), ("libvirt-ca.key", 0o640)])
def test_an_authority_that_others_may_read_is_refused(directory, libvirt, path, mode):
    os.chmod(os.path.join(directory, path), mode)
    with pytest.raises(ca.AuthorityUnsafe):
        ca.Authority(directory, "libvirt")


def test_an_authority_without_its_key_is_not_made_anew(directory, libvirt):
    """Its hosts would trust nobody any more."""
    os.remove(directory + "/libvirt-ca.key")
    with pytest.raises(ca.AuthorityUnsafe, match="no key"):
        ca.Authority(directory, "libvirt")


@pytest.mark.follows("bring_authority_key_back")
@pytest.mark.parametrize(
    "part, other", [("key", b"x"), ("pem", b"x"), ("key", None)], ids=["key", "certificate", "of another"]
)
def test_a_damaged_authority_says_what_to_restore(directory, libvirt, tmp_path, part, other):
    ca.Authority(str(tmp_path / "other"), "libvirt")
    path = os.path.join(directory, "libvirt-ca." + part)
    with open(path, "rb") as file:
        whole = file.read()
    with open(path, "wb") as file:
        file.write(other or (tmp_path / "other" / ("libvirt-ca." + part)).read_bytes())
    with pytest.raises(ca.AuthorityUnsafe) as refused:
        ca.Authority(directory, "libvirt")
    assert refused.value.hint == "Restore libvirt-ca.key and libvirt-ca.pem from a backup"
    with open(path, "wb") as file:
        file.write(whole)
    assert ca.Authority(directory, "libvirt").text == libvirt.text


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_directory_that_can_be_none_is_told_by_the_variable_that_names_it(tmp_path, path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ca.InvalidInput, match="berth_ca_directory: .*a directory that there is or can be made"):
        ca.Authority(str(tmp_path / path), "libvirt")


def test_a_dry_look_makes_nothing(directory):
    seen = ca.Authority(directory, "libvirt", dry=True)
    assert seen.reasons({"request": "", "certificate": "", "authority": ""}, NAMES) == ["there is none"]
    assert not os.path.exists(directory)


def test_the_names_are_the_controllers_and_never_the_requests(libvirt):
    certificate = x509.load_pem_x509_certificate(libvirt.sign(request(), NAMES, 30).encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(str(name.value) for name in names) == NAMES
    certificate.verify_directly_issued_by(libvirt.certificate)


def test_what_the_qemu_authority_signs_is_nothing_to_libvirt(directory, libvirt):
    """Who takes QEMU's key from a host must not be let into libvirt."""
    other = ca.Authority(directory, "qemu").sign(request(), NAMES, 30)
    with pytest.raises(ca.CertificateForeign):
        libvirt.reasons(held(libvirt, certificate=other), NAMES)


def test_a_certificate_never_outlives_its_authority(libvirt):
    certificate = x509.load_pem_x509_certificate(libvirt.sign(request(), NAMES, 100000).encode())
    assert certificate.not_valid_after_utc == libvirt.certificate.not_valid_after_utc


REASONS = {
    "nothing there": (lambda certificate: dict(certificate, certificate="", authority=""), NAMES, ["there is none"]),
    "two certificates": (
        lambda certificate: dict(certificate, certificate=""),
        NAMES,
        ["its files are not one certificate"],
    ),
    "another key": (
        lambda certificate: dict(certificate, request=request(ec.generate_private_key(ec.SECP256R1()))),
        NAMES,
        ["it is not for the host's key"],
    ),
    "a new address": (lambda certificate: certificate, ["kvm-1", "192.0.2.12"], ["it is for other names"]),
    "as it should be": (lambda certificate: certificate, list(reversed(NAMES)), []),
}


@pytest.mark.parametrize("case", REASONS)
def test_why_a_certificate_is_made_anew(libvirt, case):
    change, names, expected = REASONS[case]
    assert libvirt.reasons(change(held(libvirt)), names) == expected


@pytest.mark.parametrize("later, due", [(0, False), (480, False), (490, True), (800, True)])
def test_a_certificate_with_less_than_a_third_of_its_days_left_is_renewed(libvirt, monkeypatch, later, due):
    certificate, then = held(libvirt), ca.now() + datetime.timedelta(days=later)
    monkeypatch.setattr(ca, "now", lambda: then)
    assert bool(libvirt.reasons(certificate, NAMES)) is due


def test_an_authority_is_renewed_with_its_key_so_that_what_it_signed_stays_good(directory, libvirt, monkeypatch):
    certificate, then = held(libvirt, days=3650), ca.now() + datetime.timedelta(days=2500)
    monkeypatch.setattr(ca, "now", lambda: then)
    renewed = ca.Authority(directory, "libvirt")
    assert renewed.text != libvirt.text
    assert "the authority has a newer certificate" in renewed.reasons(certificate, NAMES)
    x509.load_pem_x509_certificate(certificate["certificate"].encode()).verify_directly_issued_by(renewed.certificate)


@pytest.mark.parametrize("part", ["authority", "certificate"])
def test_certificates_of_another_authority_are_left_alone(libvirt, tmp_path, part):
    foreign = held(ca.Authority(str(tmp_path / "other"), "libvirt"))
    with pytest.raises(ca.CertificateForeign, match="another authority"):
        libvirt.reasons({**held(libvirt), part: foreign[part]}, NAMES)


def patched(text, before, after):
    """The certificate (PEM) with these bytes of it changed, whoever signed it."""
    data = x509.load_pem_x509_certificate(text.encode()).public_bytes(serialization.Encoding.DER)
    assert data.count(before) == 1
    lines = base64.b64encode(data.replace(before, after)).decode()
    return "-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n" % lines


# Of both the package cryptography says so with an error of its own that is no ValueError.
STRANGE = {
    "a version that is none": (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"),
    "an unknown kind of key": (bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d027f")),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=list(STRANGE))
@pytest.mark.parametrize("part", ["authority", "certificate"])
def test_what_is_hardly_a_certificate_counts_as_one_of_another_authority(libvirt, part, strange):
    found = held(libvirt)
    text = patched(found[part], *strange)
    with pytest.raises(ca.CertificateForeign, match="another authority"):
        libvirt.reasons({**found, part: text}, NAMES)
    ca.issued_for(text)


@pytest.mark.parametrize("names", [[], [""], ["a b"], ["x" * 300], ["kvm\n1"], [None], ["-rf"]])
def test_bad_names_are_refused(names):
    with pytest.raises(InvalidInput) as raised:
        ca.check_names(names)
    assert raised.value.field == "names"


@pytest.mark.parametrize("text", ["", "no request", "x" * 20000, request()[:200]])
def test_what_is_no_request_is_not_signed(libvirt, text):
    with pytest.raises(InvalidInput) as raised:
        libvirt.sign(text, NAMES, 30)
    assert raised.value.field == "request"


WEAK = {
    "RSA 1024": rsa.generate_private_key(65537, 1024),
    "DSA": dsa.generate_private_key(2048),
    "secp192r1": ec.generate_private_key(ec.SECP192R1()),
}


@pytest.mark.parametrize("kind", WEAK)
def test_no_weak_key_is_signed(libvirt, kind):
    with pytest.raises(InvalidInput, match="RSA with at least 2048 bits, or of secp256r1"):
        libvirt.sign(request(WEAK[kind]), NAMES, 730)


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())])
def test_a_strong_key_of_another_kind_is_signed(libvirt, key):
    assert "BEGIN CERTIFICATE" in libvirt.sign(request(key), NAMES, 730)


def test_a_fifo_in_the_directory_of_the_authority_is_refused_and_not_waited_for(directory, libvirt):
    os.unlink(directory + "/libvirt-ca.pem")
    os.mkfifo(directory + "/libvirt-ca.pem")
    with pytest.raises(ca.AuthorityUnsafe, match="no file"):
        ca.Authority(directory, "libvirt")


def test_a_generation_that_no_fleet_reaches_is_a_damaged_file(directory, libvirt):
    path = os.path.join(directory, trust.FILE)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write('{"generation": 1000000000, "phase": "rest", "ready": []}')
    with pytest.raises(ca.AuthorityUnsafe, match="not as it was written"):
        trust.load(directory)
