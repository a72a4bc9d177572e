# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses on which libvirt listens for other hosts: all of this host's, or its migration address alone.

Under systemd a socket unit opens the port and libvirt ignores its own listen_addr, so the setting is a drop-in of that
unit. Else it is the first line of libvirt's configuration, where the first occurrence counts.
"""

from __future__ import annotations

import os
import shutil
import stat

from ...model import host_hints
from .. import durable
from ..errors import HostNotPrepared
from ..guest import gate
from ..run import PATH
from . import system

UNITS = "/etc/systemd/system"
CONFIGURATION = "/etc/libvirt"
PORT = 16514
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")  # see proc_net_tcp.txt of Linux
LISTEN = "0A"
# Exists where each driver has a daemon: its presence alone also tells libvirt's clients which kind of daemons there is.
MODULAR = "/run/libvirt/virtqemud-sock"
MARK = "  # berth.kvm: berth_host_migration_address_only\n"
DROP_IN = """# berth.kvm: berth_host_migration_address_only
[Socket]
ListenStream=
ListenStream=%s:%d
FreeBind=yes
"""


def service():
    """Return the service that listens for other hosts, whichever the distribution's default is: the socket unit of the other
    kind of daemons would stop those that run. libvirt must be answering."""
    return gate.LISTENER if os.path.exists(MODULAR) else "libvirtd"


def check():
    """Raise HostNotPrepared if the daemon that listens for other hosts is not installed."""
    name = os.uname().nodename
    if service() == gate.LISTENER and shutil.which(gate.LISTENER, path=PATH) is None:
        raise HostNotPrepared(
            "%s, which listens for other hosts, is not installed on %s" % (gate.LISTENER, name),
            hint=host_hints.switch_on_daemon(name, gate.LISTENER, "libvirt-daemon-proxy"),
        )


def path():
    if system.service_manager() == "systemd":
        return os.path.join(UNITS, service() + "-tls.socket.d", "zz-berth-kvm.conf")
    return os.path.join(CONFIGURATION, service() + ".conf")


def differs(address):
    """Whether the file's setting differs from ``address``, or the port is open on all though it has it: the socket unit was not
    restarted since. None means all addresses."""
    return _text() != _wanted(address) or bool(address) and _is_open_on_all()


def settle(address):
    """Write the setting. The caller notes first that libvirt must be restarted, and restarts it afterwards."""
    wanted = _wanted(address)
    if wanted:
        durable.make_directories(os.path.dirname(path()), 0o755)
        mode = stat.S_IMODE(os.stat(path()).st_mode) if os.path.lexists(path()) else 0o644
        durable.write_at(path(), wanted.encode("utf-8", "surrogateescape"), mode)
    elif os.path.lexists(path()):
        durable.remove_at(path())


def _wanted(address):
    """Return the content of the whole file; "" for no file."""
    if system.service_manager() == "systemd":
        return DROP_IN % ("[%s]" % address if ":" in address else address, PORT) if address else ""
    others = "".join(line for line in _text().splitlines(True) if not line.endswith(MARK))
    return ('listen_addr = "%s"%s' % (address, MARK) if address else "") + others


def _is_open_on_all():
    for path in TABLES:
        try:
            with open(path, encoding="ascii") as table:
                rows = [line.split() for line in table]
        except OSError:
            continue
        for _slot, local, _remote, state, *_more in rows:
            address, _colon, port = local.partition(":")
            if state == LISTEN and port == "%04X" % PORT and not address.strip("0"):
                return True
    return False


def _text():
    try:
        with open(path(), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return ""
