# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's own TLS connections, of migration and NBD: a real QEMU judges the files that a host has below /etc/pki/qemu."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.compute.host.certificates import PLACES
from ansible_collections.berth.kvm.plugins.plugin_utils import trust

pytestmark = pytest.mark.skipif(
    not (shutil.which("qemu-nbd") and shutil.which("qemu-img")), reason="needs QEMU's tools"
)
PLACE, ADDRESS, WITHIN = PLACES["qemu"], "127.0.0.1", 60


class Host:
    def __init__(self, scratch, name):
        self.name, self.folder = name, scratch / name
        self.key = ec.generate_private_key(ec.SECP256R1())
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(self.key, hashes.SHA256())
        text = request.public_bytes(serialization.Encoding.PEM).decode()
        self.held = {"request": text, "certificate": "", "authority": "", "revoked": ""}

    def prepare(self, directory):
        brought = trust.Trust(directory, "qemu", trust.load(directory)).brought
        self.held.update(brought(self.held, [self.name, ADDRESS], 730)[1])
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        files = {PLACE.authority: self.held["authority"], PLACE.revoked: self.held["revoked"]}
        files.update(dict.fromkeys(PLACE.certificates, self.held["certificate"]), **dict.fromkeys(PLACE.keys, key))
        for path, content in files.items():
            if content:
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / path).write_text(content)

    def credentials(self, endpoint):
        return "tls-creds-x509,id=tls,endpoint=%s,verify-peer=on,dir=%s" % (endpoint, self.folder / "qemu")


def taken(source, destination, scratch):
    """Whether QEMU on the destination takes a stream of QEMU on the source."""
    (scratch / "disk").write_bytes(bytes(1 << 20))
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = str(free.getsockname()[1])
    server = ["qemu-nbd", "-t", "-f", "raw", "-b", ADDRESS, "-p", port, "--tls-creds", "tls"]
    with subprocess.Popen([*server, "--object", destination.credentials("server"), str(scratch / "disk")]) as process:
        try:
            _wait_for(port, process)
            disk = "driver=nbd,host=%s,port=%s,tls-creds=tls" % (ADDRESS, port)
            client = ["qemu-img", "info", "--object", source.credentials("client"), "--image-opts", disk]
            return subprocess.run(client, capture_output=True, check=False, timeout=WITHIN).returncode == 0
        finally:
            process.kill()


def _wait_for(port, process):
    end = time.monotonic() + WITHIN
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as door:
            if door.connect_ex((ADDRESS, int(port))) == 0:
                return
        time.sleep(0.05)
    pytest.fail("qemu-nbd does not listen")


@pytest.fixture
def fleet(tmp_path):
    hosts = [Host(tmp_path, name) for name in ("kvm1", "kvm2", "kvm3")]
    for host in hosts:
        host.prepare(str(tmp_path / "ca"))
    return hosts


def revoke(directory, name):
    for book in trust.Trust(directory, "qemu", trust.load(directory)).books:
        book.revoke(name)


def test_qemu_refuses_a_revoked_host_and_takes_the_others(fleet, tmp_path):
    directory, (first, second, gone) = str(tmp_path / "ca"), fleet
    assert taken(gone, first, tmp_path)
    revoke(directory, gone.name)
    first.prepare(directory)
    assert os.path.exists(first.folder / PLACE.revoked)
    assert not taken(gone, first, tmp_path) and taken(second, first, tmp_path)


def test_qemu_takes_hosts_of_both_authorities_while_they_are_changed_and_no_revoked_one(fleet, tmp_path):
    directory, (first, second, gone) = str(tmp_path / "ca"), fleet
    revoke(directory, gone.name)
    trust.begin(directory)
    for phase in (trust.SIGN, trust.DROP):
        for host in (first, second):
            host.prepare(directory)
            trust.note_ready(directory, host.name, trust.load(directory))
        trust.advance(directory, phase, [first.name, second.name])
        first.prepare(directory)  # the second is a step behind
        assert taken(first, second, tmp_path) and taken(second, first, tmp_path)
        assert not taken(gone, first, tmp_path)
