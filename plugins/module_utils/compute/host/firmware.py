# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The UEFI firmware that QEMU's descriptors offer on this host, in the order in which libvirt takes it.

A descriptor in /etc goes before one of the same name in /usr/share, and an empty one hides it. All are sorted by name.
"""

from __future__ import annotations

import json
import os

from ...model import adopted, host_hints
from ...model.guest_settings import GuestNeeds
from ..errors import GuestNotSupported
from ..guest import nvram

DIRECTORIES = ("/usr/share/qemu/firmware", "/etc/qemu/firmware")
LARGEST = 1 << 20  # bytes of a descriptor
MOST = 100


def offered(arch):
    """Return [{machines, secure_boot, variables}] for this architecture: patterns of machine types, whether signatures
    are checked by keys that are there, and the form of the variables (model/guest_settings.py)."""
    return [one for descriptor in _descriptors() for one in _firmware(descriptor, arch)][:MOST]


def executables():
    """Return the paths of all firmware that guests may be given here."""
    mappings = [descriptor.get("mapping") for descriptor in _descriptors()]
    files = [mapping.get("executable") for mapping in mappings if isinstance(mapping, dict)]
    return {file.get("filename") for file in files if isinstance(file, dict)}


def _descriptors():
    found = {name: os.path.join(place, name) for place in DIRECTORIES for name in _names(place)}
    return list(filter(None, (_read(found[name]) for name in sorted(found))))


def check(host, record, form):
    """Raise GuestNotSupported unless the firmware that libvirt takes here can use the guest's variables, which have this
    form (nvram.form, or None: there are none yet). ``host``: compute/host/host.py."""
    if adopted.of(record.spec):
        return  # it names its firmware itself, see arrival.py
    needs = GuestNeeds.of(record.spec)._replace(variables=form)
    why = needs.lacking(None, offered(host.capabilities.arch)) if form else None
    if why:
        name = host.connection.getHostname()
        raise GuestNotSupported(
            "the guest of %s would lose its UEFI variables on %s: the host %s" % (record.name, name, why),
            hint=host_hints.bring_firmware(name, form),
            host=name,
        )


def check_here(host, record):
    """Check the same for the variables that are beside the guest's disks."""
    check(host, record, nvram.form(nvram.path(host.pool_of(record), record.uuid)))


def _names(place):
    try:
        return [name for name in os.listdir(place) if name.endswith(".json")]
    except OSError:
        return []


def _read(path):
    """Return a descriptor, or None: libvirt passes over one that it cannot read."""
    try:
        with open(path, "rb") as stream:
            found = json.loads(stream.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _firmware(descriptor, arch):
    """Yield what the descriptor offers: nothing if it is not UEFI with variables of each guest's own."""
    try:
        template = descriptor["mapping"]["nvram-template"]
        features = set(descriptor["features"])
        machines = [
            machine
            for target in descriptor["targets"]
            if target["architecture"] == arch
            for machine in target["machines"]
        ]
        signed = {"secure-boot", "enrolled-keys"} & features
        variables = nvram.form(template["filename"], template["format"])
    except (KeyError, TypeError):
        return
    if "uefi" in descriptor.get("interface-types", ()) and machines and variables and len(signed) != 1:
        yield {"machines": machines, "secure_boot": bool(signed), "variables": variables}
