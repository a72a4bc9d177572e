# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The UEFI variables of a guest: a file beside its disks, which libvirt makes from the firmware's template at first
start.

In libvirt's default place (/var/lib/libvirt/qemu/nvram), they would stay behind in a move.
"""

from __future__ import annotations

from .. import paths

FILE = "nvram.fd"


def path(pool_path, uuid):
    return paths.instance(pool_path, uuid, FILE)
