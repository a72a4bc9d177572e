# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The package cryptography that the authorities for live migration need: without it none is opened and nothing changes."""

from __future__ import annotations

from typing import Optional

from ..module_utils.conductor.errors import CryptographyOutdated
from ..module_utils.model import host_hints

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
