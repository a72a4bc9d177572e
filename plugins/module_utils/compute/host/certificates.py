# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where libvirt and QEMU look for the host's certificates for live migration, and whether they count."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from typing import Tuple

from ...model import host_hints
from ..errors import HostNotPrepared
from ..run import run

PKI = "/etc/pki"


@dataclasses.dataclass(frozen=True)
class Place:
    """The paths of one use's files, below /etc/pki. Server and client share one key and one certificate."""

    authority: str
    certificates: Tuple[str, ...]
    keys: Tuple[str, ...]
    revoked: str  # the list of revoked certificates; missing until there is one
    for_qemu: bool

    def files(self):
        return (self.authority, self.revoked, *self.certificates, *self.keys)

    def paths(self, pki=PKI):
        return [os.path.join(pki, name) for name in (self.authority, *self.certificates, *self.keys)]


# libvirt: remote driver, "TLS x509 certificate configuration"; QEMU: default_tls_x509_cert_dir of qemu.conf
PLACES = {
    "libvirt": Place(
        "CA/cacert.pem",
        ("libvirt/servercert.pem", "libvirt/clientcert.pem"),
        ("libvirt/private/serverkey.pem", "libvirt/private/clientkey.pem"),
        "CA/cacrl.pem",
        for_qemu=False,
    ),
    "qemu": Place(
        "qemu/ca-cert.pem",
        ("qemu/server-cert.pem", "qemu/client-cert.pem"),
        ("qemu/server-key.pem", "qemu/client-key.pem"),
        "qemu/ca-crl.pem",
        for_qemu=True,
    ),
}


def missing(pki=PKI):
    return [path for place in PLACES.values() for path in place.paths(pki) if not os.path.exists(path)]


def faults(pki=PKI):
    """Return what is wrong with this host's files, as sentences; empty if live migration with TLS can work."""
    lacking = missing(pki)
    if lacking:
        return ["no certificates (%s). %s" % (", ".join(lacking), host_hints.prepare_host(os.uname().nodename))]
    return [
        "the certificate %s has ended, does not count yet, or cannot be read. %s"
        % (os.path.join(pki, place.certificates[0]), host_hints.prepare_host(os.uname().nodename))
        for place in PLACES.values()
        if not is_good(place, pki)
    ]


def is_good(place, pki=PKI):
    """Whether its certificate counts now, by this host's clock."""
    return not why_not(*(os.path.join(pki, name) for name in (place.authority, place.certificates[0])))


def why_not(authority, certificate):
    """What openssl says against the certificate, or None. Both are paths."""
    try:
        run(["openssl", "verify", "-CAfile", authority, certificate], error=HostNotPrepared)
    except HostNotPrepared as error:
        return error.message
    return None


def are_signed_by(authorities, certificates):
    """Whether one of these authorities (PEM) signed the certificate in each of the files, expired or not."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as trusted:
        trusted.write(authorities)
        trusted.flush()
        try:
            for path in certificates:
                run(["openssl", "verify", "-no_check_time", "-CAfile", trusted.name, path], error=HostNotPrepared)
        except HostNotPrepared:
            return False
    return True
