# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which distribution this host runs, as far as names of packages, services and files depend on it."""

from __future__ import annotations

import os
import re

OS_RELEASE = "/etc/os-release"
SYSTEMD = "/run/systemd/system"  # exists if systemd is running, see sd_booted(3)
# Ansible's names of the families, by the values of os-release.
FAMILIES = {
    "debian": "Debian",
    "ubuntu": "Debian",
    "rhel": "RedHat",
    "centos": "RedHat",
    "fedora": "RedHat",
    "suse": "Suse",
    "opensuse": "Suse",
}
OTHER = "Other"


def os_family(path: str = OS_RELEASE) -> str:
    """Return Debian, RedHat, Suse or Other."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            fields = dict(re.findall(r'^(ID|ID_LIKE)="?([^"\n]*)"?$', file.read(1 << 16), re.MULTILINE))
    except OSError:
        return OTHER
    names = fields.get("ID", "").split() + fields.get("ID_LIKE", "").split()
    return next((FAMILIES[name] for name in names if name in FAMILIES), OTHER)


def service_manager(path: str = SYSTEMD) -> str:
    """Return systemd or other."""
    return "systemd" if os.path.isdir(path) else "other"
