# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that runs guest/after_outage.py once after each boot of a host whose fleet has a registry.

Its code is a file of its own, from the controller: nothing of ours is installed here, and the code of modules may be forgotten.
"""

from __future__ import annotations

import hashlib
import json
import sys

from .system_files import UNITS, SystemFiles

SETTINGS, CERTIFICATE = "/etc/berth/registry.json", "/etc/berth/registry.pem"
CODE = "/usr/local/lib/berth-start-after-outage.pyz"
SERVICE = "berth-start-after-outage.service"
UNIT_PATH = "%s/%s" % (UNITS, SERVICE)
FILES = ("%s/multi-user.target.wants/%s" % (UNITS, SERVICE), UNIT_PATH, CODE, CERTIFICATE, SETTINGS)

# It waits for the registry, whose members may be hosts that boot: not oneshot, so that nothing else waits for it.
UNIT = """[Unit]
Description=Start the guests that the registry of berth.kvm says are this host's
Wants=network-online.target
After=network-online.target libvirtd.service virtqemud.service virtnetworkd.service virtstoraged.service berth-registry.service

[Service]
Type=exec
ExecStart=%(python)s -I %(code)s %(settings)s %(certificate)s

[Install]
WantedBy=multi-user.target
"""


class OutageUnit(SystemFiles):
    def lacks_code(self, digest):
        """Whether the code here is not the one with this sha256."""
        return hashlib.sha256(self._bytes(CODE)).hexdigest() != digest

    def prepare(self, settings, certificate, code=None):
        """``settings``: see registry_reading.py; ``certificate``: key and certificate, PEM; ``code``: what is lacking, bytes."""
        self._put(SETTINGS, json.dumps(settings, indent=1, sort_keys=True) + "\n", 0o600)
        self._put(CERTIFICATE, certificate, 0o600)
        if code is not None:
            self._put(CODE, code, 0o644)
        texts = {"python": sys.executable, "code": CODE, "settings": SETTINGS, "certificate": CERTIFICATE}
        self._put(UNIT_PATH, UNIT % texts, 0o644)
