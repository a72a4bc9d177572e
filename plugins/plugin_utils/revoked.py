# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates an authority has signed, and which of them it has revoked: files beside its key.

The list of revoked certificates (CRL) only grows. It is valid as long as the authority's certificate, since outside of
that time libvirt would refuse everybody, also on a host whose clock is behind. It is signed again when that certificate
is.
"""

from __future__ import annotations

import datetime
import json
import os
import re

from ..module_utils.conductor.errors import AuthorityUnsafe
from ..module_utils.model import input_hints
from . import authority as ca
from .documents import write_file

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
except ImportError:
    x509 = None

# no "-" between: else a text of beginnings without an end would take hours
LIST = re.compile(r"-----BEGIN X509 CRL-----[A-Za-z0-9+/=\s]*-----END X509 CRL-----", re.ASCII)
MOST_BITS = 159  # of a certificate's number (RFC 5280)


class Signed:
    """``hosts``: host -> {number of a certificate: when it ends}; ``revoked``: revoked numbers; ``text``: the list."""

    def __init__(self, authority, directory, dry=False):
        self.authority, self.directory, self.dry = authority, directory, dry
        self.hosts, self.revoked, self.text = {}, frozenset(), ""
        if not dry or os.path.isdir(directory):
            with ca.locked(directory, dry) as folder:
                self._load(folder)

    @property
    def _book(self):
        return self.authority.stem + "-signed.json"

    @property
    def _list(self):
        return self.authority.stem + "-crl.pem"

    def _load(self, folder):
        self.hosts = _hosts(ca.read(folder, self._book), self._book)
        self.text = ca.read(folder, self._list).decode("ascii", "replace")
        numbers = self._numbers(self.text)
        if numbers is None and self.text:
            raise _damaged(self._list)
        self.revoked = numbers or frozenset()

    def _numbers(self, text):
        """The numbers in the lists that this authority has signed, None if there is no such list."""
        lists = self._lists(text)
        return frozenset(entry.serial_number for found in lists for entry in found) if lists else None

    def _lists(self, text):
        """The lists that this authority has signed; during a rotation a host has those of two authorities."""
        key = self.authority.certificate and self.authority.certificate.public_key()
        try:
            found = [x509.load_pem_x509_crl(part.encode()) for part in LIST.findall(text)]
        except ValueError:
            return []
        return [each for each in found if key and each.is_signature_valid(key)]

    def _is_short(self, text, begin, end):
        """Whether one of its lists in ``text`` begins later or ends earlier."""
        return any(found.last_update_utc > begin or found.next_update_utc < end for found in self._lists(text))

    def note(self, host, certificate):
        """Record that a certificate (PEM) is the host's, if it has the host's name and this authority signed it."""
        signed = _certificate(certificate)
        if self.dry or signed is None or ca.common_name(signed) != host[: ca.MOST_OF_NAME]:
            return
        if str(signed.serial_number) in self.hosts.get(host, {}) or not self.authority.has_signed(signed):
            return
        with ca.locked(self.directory) as folder:
            self._load(folder)
            self.hosts.setdefault(host, {})[str(signed.serial_number)] = signed.not_valid_after_utc.isoformat()
            write_file(folder, self._book, json.dumps(self.hosts, indent=1, sort_keys=True).encode(), 0o600)

    def revoke(self, host):
        """Revoke all certificates of the host, whatever this machine's clock says of them. Return how many that are."""
        new = frozenset(map(int, self.hosts.get(host, {}))) - self.revoked
        self._add(new)
        return len(new)

    def take_over(self, text):
        """If ours was restored from a backup, also revoke what a host's list (PEM) has in addition."""
        self._add(self._numbers(text) or frozenset())

    def has_revoked(self, certificate):
        found = _certificate(certificate)
        return found is not None and found.serial_number in self.revoked

    def lacks(self, text):
        """Whether a host with this list would accept a revoked certificate, or has a list that counts for less time."""
        theirs = self._numbers(text) or frozenset()
        return bool(self.revoked - theirs) or any(
            self._is_short(text, own.last_update_utc, own.next_update_utc) for own in self._lists(self.text)
        )

    def _add(self, numbers):
        if self.dry or numbers <= self.revoked and not self._is_outdated():
            return
        with ca.locked(self.directory) as folder:
            self._load(folder)
            self.revoked |= numbers
            self.text = self._signed()
            write_file(folder, self._list, self.text.encode(), 0o644)

    def _is_outdated(self):
        """Whether the authority's certificate was renewed since, or made when this machine's clock was ahead."""
        own = self.authority.certificate
        return self._is_short(self.text, own.not_valid_before_utc, own.not_valid_after_utc)

    def _signed(self):
        begin = self.authority.certificate.not_valid_before_utc
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.authority.certificate.subject)
            .last_update(begin)
            .next_update(self.authority.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(len(self.revoked)), critical=False)
        )
        for number in sorted(self.revoked):
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(begin).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self.authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def _certificate(text):
    try:
        return ca.read_certificate(text)
    except ValueError:
        return None


def _hosts(data, name):
    """Return {host: {number: end}} from the file's content; empty if there is none."""
    try:
        hosts = json.loads(data) if data else {}
        for numbers in hosts.values():
            for number, ends in numbers.items():
                _moment(ends)
                if not 0 < int(number) < 1 << MOST_BITS:
                    raise ValueError
    except (ValueError, TypeError, AttributeError):
        raise _damaged(name)
    return hosts


def _moment(text):
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)


def _damaged(name):
    return AuthorityUnsafe("%s is not as it was written" % name, hint=input_hints.bring_authority_key_back(name))
