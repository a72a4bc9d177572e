# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies of the modules that prepare hosts: host_prepare, host_certificates, host_system, host_clean."""

from __future__ import annotations

from .shape import address, block, choice, list_of, map_of, object_of, or_null, text, uuid, whole, word, words

SERVICES = list_of(choice("libvirtd", "virtproxyd", "virtqemud"), 3)
DIFF = object_of({"before": block(1 << 20), "after": block(1 << 20)})
PREPARE = object_of(
    {
        "parts": list_of(choice("uuid", "state", "settings", "pool", "gate", "listening", "directories"), 10),
        "host_uuid": uuid,
        "listener": choice("libvirtd", "virtproxyd"),
        "restart": SERVICES,
        "removed_images": words("[0-9a-f]+", 10000),
        "forgotten_failed_builds": whole(0, 1 << 40),
        "diff": DIFF,
    },
    optional=("diff",),
)
_PARTS = ("request", "certificate", "authority", "revoked")
_CERTIFICATES_OF_ONE_USE = object_of(dict.fromkeys(_PARTS, block(1 << 20)), optional=_PARTS)
CERTIFICATES = object_of(
    {
        "held": map_of(choice("libvirt", "qemu"), _CERTIFICATES_OF_ONE_USE, 2),
        "address": or_null(address),
        "files": list_of(text(), 100),
        "loose": list_of(text(), 100),
        "restart": SERVICES,
    }
)
SYSTEM = object_of({"os_family": word("[A-Za-z]+", 32), "service_manager": word("[a-z]+", 32)})
CLEAN = object_of({"removed": list_of(text(), 100), "left": list_of(text(), 100), "restart": SERVICES})
