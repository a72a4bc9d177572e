# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate authorities of a fleet, which are in a directory of the controller and nowhere else.

There are two. The one for libvirt signs who may command another host's libvirt; the one for QEMU signs who may stream a
guest. A guest that broke out of its QEMU could read QEMU's key, which must not give access to libvirt.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import ipaddress
import os
import re
import stat
from typing import Optional

from ..module_utils.conductor.errors import AuthorityUnsafe, CertificateForeign, CryptographyOutdated
from ..module_utils.model import host_hints, input_hints
from ..module_utils.model.errors import InvalidInput
from .documents import write_file

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    x509 = None

KINDS = ("libvirt", "qemu")
AUTHORITY_DAYS = 3650
MAX_REQUEST = 16384
CURVES = ("secp256r1", "secp384r1", "secp521r1")
LEAST_RSA = 2048  # bits
STRONG = "RSA with at least %d bits, or of %s" % (LEAST_RSA, ", ".join(CURVES))
NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\Z", re.ASCII)
MOST_OF_NAME = 64  # characters of a common name (RFC 5280)
SKEW = datetime.timedelta(hours=1)  # hosts' clocks may be behind


def now():
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def check_names(names):
    """Return the names for a certificate: host names and IP addresses, each once, in order."""
    rule = "host names and IP addresses, at least one"
    for name in names:
        if not isinstance(name, str) or not (NAME.match(name) or _address(name)):
            raise InvalidInput("names", name, rule)
    if not names:
        raise InvalidInput("names", names, rule)
    return list(dict.fromkeys(names))


def _address(name):
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _general_names(names):
    return [x509.IPAddress(_address(name)) if _address(name) else x509.DNSName(name) for name in names]


def stem(kind, generation):
    """The beginning of the names of an authority's files."""
    return kind if generation == 1 else "%s-%d" % (kind, generation)


def there_is_none(directory):
    """Whether the directory has no part of any authority for live migration."""
    return not os.path.isdir(directory) or not any(
        name.startswith(KINDS) and name.endswith(("-ca.key", "-ca.pem")) for name in os.listdir(directory)
    )


class Authority:
    """One authority: its key and certificate in ``directory``, made at first use. ``generation``: see trust.py."""

    def __init__(self, directory, kind, dry=False, generation=1):
        """``dry``: make and write nothing; ``certificate`` may be None then. ``made``: this call made the key."""
        check()
        self.kind, self.stem = kind, stem(kind, generation)
        self.key = self.certificate = None
        self.made = False
        if dry and not os.path.isdir(directory):
            return
        with locked(directory, dry) as folder:
            self._load(folder, dry)

    def _load(self, folder, dry):
        key, certificate = read(folder, self.stem + "-ca.key", private=True), read(folder, self.stem + "-ca.pem")
        try:
            if key:
                self.key = serialization.load_pem_private_key(key, None)
            if certificate:
                self.certificate = x509.load_pem_x509_certificate(certificate)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise self._damaged("the authority %s cannot be read: %s" % (self.stem, error))
        if self.key and self.certificate and self.key.public_key() != self.certificate.public_key():
            raise self._damaged("the key of the authority %s is not that of its certificate" % self.stem)
        if dry:
            return
        if not self.key:
            if self.certificate:
                raise AuthorityUnsafe(
                    "the authority %s has no key" % self.stem,
                    hint=input_hints.bring_authority_key_back(self.stem + "-ca.key"),
                )
            self.key = ec.generate_private_key(ec.SECP256R1())
            write_file(folder, self.stem + "-ca.key", _private_text(self.key), 0o600)
            self.made = True
        if not self.certificate or _is_due(self.certificate):
            # The same key and name: certificates that it signed before stay valid.
            self.certificate = _self_signed(self.key, "berth.kvm %s" % self.stem)
            write_file(folder, self.stem + "-ca.pem", _text(self.certificate).encode(), 0o644)

    def _damaged(self, why):
        files = "%s-ca.key and %s-ca.pem" % (self.stem, self.stem)
        return AuthorityUnsafe(why, hint=input_hints.bring_authority_key_back(files))

    @property
    def text(self):
        return _text(self.certificate) if self.certificate else ""

    def secret(self):
        """What all controllers have and no host: its key."""
        return _private_text(self.key)

    def reasons(self, held, names, trusted=None, ours=()):
        """Why the host needs a new certificate; empty if it does not. ``held``: {request, certificate, authority}.

        ``trusted``: the authorities that the host should trust; ``ours``: other authorities of this fleet.
        Raises CertificateForeign if the host trusts any other authority.
        """
        if not held["certificate"] and not held["authority"]:
            return ["there is none"]
        self._check_ours(held, [self, *ours])
        try:
            certificate = read_certificate(held["certificate"])
        except ValueError:
            return ["its files are not one certificate"]
        why = []
        if held["request"] and _request(held["request"]).public_key() != certificate.public_key():
            why.append("it is not for the host's key")
        if set(_names(certificate)) != set(_general_names(names)):
            why.append("it is for other names")
        if _is_due(certificate):
            dates = (certificate.not_valid_before_utc.date(), certificate.not_valid_after_utc.date())
            why.append("it counts from %s to %s" % dates)
        if self.certificate and not self.has_signed(certificate):
            why.append("another key of the authority signs now")
        if held["authority"] != (self.text if trusted is None else trusted):
            why.append("the authority has a newer certificate")
        return why

    def _check_ours(self, held, ours):
        made = [authority for authority in ours if authority.certificate]
        keys = [authority.certificate.public_key() for authority in made]
        try:
            theirs = x509.load_pem_x509_certificates(held["authority"].encode())
            is_ours = all(certificate.public_key() in keys for certificate in theirs)
            if is_ours and held["certificate"]:
                certificate = read_certificate(held["certificate"])
                is_ours = any(authority.has_signed(certificate) for authority in made)
        except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
            is_ours = False
        if not is_ours:
            raise CertificateForeign(
                "the host has certificates for %s that another authority signed" % self.kind,
                hint=input_hints.keep_foreign_certificates(),
            )

    def has_signed(self, certificate):
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def sign(self, request, names, days):
        """Return a certificate (PEM) for the key of a request. The controller chooses its names, never the request."""
        return self._issue(request, _subject(names[0][:MOST_OF_NAME]), names, days)

    def sign_without_common_name(self, request, names, days):
        """As etcd needs it where users log in: it takes a common name for a user, and its JSON gateway refuses one."""
        return self._issue(request, x509.Name([]), names, days)

    def _issue(self, request, subject, names, days):
        begin = now()
        end = min(begin + datetime.timedelta(days=days), self.certificate.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(_request(request).public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin - SKEW)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            # libvirt asks for both, whatever the kind of key (virNetTLSContextCheckCertKeyUsage)
            .add_extension(_usage(digital_signature=True, key_encipherment=True), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(_general_names(names)), critical=not subject.rdns)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        return _text(builder.sign(self.key, hashes.SHA256()))

    def is_due(self, text):
        """Whether a certificate (PEM) is not its own, or ends soon."""
        certificate = read_certificate(text)
        return not self.has_signed(certificate) or _is_due(certificate)

    def own(self, name, days):
        """A key for this controller, made now, and its certificate, both as PEM. Nobody keeps them."""
        key = ec.generate_private_key(ec.SECP256R1())
        request = x509.CertificateSigningRequestBuilder().subject_name(_subject(name)).sign(key, hashes.SHA256())
        return _private_text(key).decode(), self.sign_without_common_name(_text(request), [name], days)


def _request(text):
    rule = "a signed certificate request of at most %d characters, for a key of %s" % (MAX_REQUEST, STRONG)
    try:
        if len(text) > MAX_REQUEST:
            raise ValueError
        request = x509.load_pem_x509_csr(text.encode())
        if request.is_signature_valid and _is_strong(request.public_key()):
            return request
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    raise InvalidInput("request", text[:40], rule)


def _is_strong(key):
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size >= LEAST_RSA
    return isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in CURVES


def read_certificate(text):
    """Return the certificate (PEM) that a host sent. Raise ValueError if it is none."""
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except x509.InvalidVersion as error:  # of all its errors the only one that is no ValueError
        raise ValueError(str(error))


def _names(certificate):
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def common_name(certificate):
    """The name that it was issued for: the host's inventory name."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return names[0].value if names else ""


def issued_for(text):
    """The first name of a certificate (PEM): the inventory name of the host that it was signed for. None if there is none."""
    check()
    try:
        names = _names(read_certificate(text))
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None
    return str(names[0].value) if names else None


def _is_due(certificate):
    """Whether less than a third of its lifetime is left, or it was signed when the clock was ahead and does not count yet."""
    whole = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now() < whole / 3 or now() < certificate.not_valid_before_utc


def _self_signed(key, name):
    begin = now()
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(_subject(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - SKEW)
        .not_valid_after(begin + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def _subject(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(**wanted):
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def _text(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_text(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# ---- the directory -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(directory, dry=False):
    """Open the directory, created if missing, for this process alone: many hosts are prepared at a time. An empty one of
    ours is made private unless ``dry``."""
    check()
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        rule = "a directory that there is or can be made: %s" % error.strerror
        raise InvalidInput("berth_ca_directory", directory, rule) from None
    try:
        if not _is_empty_of_ours(folder):
            _check_private(os.fstat(folder), directory)
        elif not dry:
            os.fchmod(folder, 0o700)
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(folder)


def _is_empty_of_ours(folder):
    """Whether there is nothing yet to hide, and nobody else can put anything there."""
    status = os.fstat(folder)
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and not os.listdir(folder)


def _check_private(status, what):
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise AuthorityUnsafe("%s is not for its owner only" % what, hint=input_hints.private_files())


def read(folder, name, private=False):
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return b""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise AuthorityUnsafe("%s in the authority's directory is no file" % name)
    with os.fdopen(fd, "rb") as file:
        if private:
            _check_private(os.fstat(fd), name)
        return file.read(1 << 20)


# The package cryptography that the authorities for live migration need: without it none is opened and nothing changes.

VERSION: Optional[str]
try:
    from cryptography import __version__ as VERSION
except ImportError:
    VERSION = None

OLDEST = 42  # the first whose certificates and lists say their times with a time zone
REQUIREMENT = "cryptography>=%d" % OLDEST  # requirements.txt says the same


def check() -> None:
    """Raise CryptographyOutdated if the controller has none, or an older one."""
    if VERSION is None or int(VERSION.split(".")[0]) < OLDEST:
        raise CryptographyOutdated(
            "certificates for live migration need the Python package %s on the controller, which has %s"
            % (REQUIREMENT, "none" if VERSION is None else "cryptography %s" % VERSION),
            hint=host_hints.install_on_controller(REQUIREMENT),
        )
