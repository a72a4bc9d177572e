# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this host can run the definition of an adopted instance that a move brings."""

from __future__ import annotations

from ...model import adopted
from ..errors import GuestNotSupported
from ..host import firmware


def check(host, record):
    """Raise GuestNotSupported unless it can. ``host``: compute/host/host.py. A created guest gets a definition of this host."""
    if not adopted.of(record.spec):
        return
    root = adopted.root_of(record.spec[adopted.KEY])
    machine, loader = root.find("os/type"), root.findtext("os/loader")
    lacks = []
    if root.get("type") == "kvm" and host.domain_type != "kvm":
        lacks.append("KVM")
    if machine.get("arch") not in (None, host.capabilities.arch):
        lacks.append("CPUs of architecture %s" % machine.get("arch"))
    if loader and loader not in firmware.executables():
        lacks.append("the firmware %s" % loader)
    if lacks:
        name = host.connection.getHostname()
        raise GuestNotSupported(
            "%s was adopted with what %s lacks: %s" % (record.name, name, " and ".join(lacks)), host=name
        )
