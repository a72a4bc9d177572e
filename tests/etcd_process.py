# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real members of etcd as processes of a test, on free ports of 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryRefused, RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.plugin_utils import registry_access
from ansible_collections.berth.kvm.plugins.plugin_utils.authority import Authority
from ansible_collections.berth.kvm.plugins.plugin_utils.etcd import Etcd, Member

IS_HERE = shutil.which("etcd") is not None


def free_ports(number):
    """They stay free until somebody else asks for ports, which here nobody does between this and the start."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _each in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Members:
    """``number`` members in ``directory``; ``more``: further arguments of etcd. A test kills, stops and starts each."""

    def __init__(self, directory, number=1, *more, scheme="http"):
        self.directory, self.more, self.scheme = directory, more, scheme
        ports = free_ports(2 * number)
        self.clients, self.peers = ports[:number], ports[number:]
        self.processes = [None] * number

    @property
    def members(self):
        return [Member("127.0.0.1", port) for port in self.clients]

    def start(self, *which):
        for at in which or range(len(self.processes)):
            self.processes[at] = self._started(at)

    def _started(self, at):
        name, client = "m%d" % at, "%s://127.0.0.1:%d" % (self.scheme, self.clients[at])
        peers = ["http://127.0.0.1:%d" % port for port in self.peers]
        arguments = {
            "name": name,
            "data-dir": self.directory / name,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peers[at],
            "initial-advertise-peer-urls": peers[at],
            "initial-cluster": ",".join("m%d=%s" % (number, peer) for number, peer in enumerate(peers)),
        }
        options = ["--%s=%s" % pair for pair in arguments.items()]
        with open(self.directory / (name + ".log"), "ab") as log:
            return subprocess.Popen(["etcd", *options, *self.more], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait(self, engine=None, seconds=20):
        """Until a majority answers."""
        engine, end = engine or Etcd(self.members), time.monotonic() + seconds
        while True:
            try:
                return engine.transact(Transact(reads=("/",)))
            except RegistryRefused:  # it has users by now
                return None
            except RegistryUnknown:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def kill(self, *which):
        for at in which or range(len(self.processes)):
            if self.processes[at]:
                self.processes[at].kill()
                self.processes[at].wait()
                self.processes[at] = None

    def hang(self, at):
        """As behind a link that is cut: it takes connections, which the kernel does, and answers nothing."""
        self.processes[at].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.processes[at].pid, os.WSTOPPED)  # until then some of its threads go on

    def unhang(self, at):
        self.processes[at].send_signal(signal.SIGCONT)


def secured(made, directory, others=""):
    """Arguments of members whose clients need a certificate of the authority ``made``, or of ``others``, in PEM, and their files in
    ``directory``."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM).decode()
    parts = {
        "key": key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
        "cert": made.sign_without_common_name(pem, ["127.0.0.1"], 1),
        "trusted-ca": made.text + others,
    }
    for name, text in parts.items():
        (directory / name).write_text(text)
    return [*("--%s-file=%s" % (name, directory / name) for name in parts), "--client-cert-auth"]


@contextlib.contextmanager
def running(directory, number=1, *more):
    """Members that answer; the data need not survive the machine."""
    members = Members(directory, number, "--unsafe-no-fsync", "--log-level=error", *more)
    try:
        members.start()
        members.wait()
        yield members
    finally:
        members.kill()


@contextlib.contextmanager
def running_with_tls(directory, *more):
    """A member that takes certificates of the authorities in ``directory``/ca alone."""
    made, of_hosts = (
        Authority(str(directory / "ca"), kind) for kind in (registry_access.AUTHORITY, registry_access.HOSTS_AUTHORITY)
    )
    files = secured(made, directory, of_hosts.text)
    members = Members(directory, 1, *files, "--unsafe-no-fsync", "--bcrypt-cost=4", *more, scheme="https")
    try:
        members.start()
        members.wait(registry_access.engine(members.members, str(directory / "ca"), user=None))
        yield members
    finally:
        members.kill()
