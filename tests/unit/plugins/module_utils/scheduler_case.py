# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain hosts and requests that the tests of decisions and claims change."""

from __future__ import annotations

FLAVOR = {"name": "m1", "vcpus": 2, "memory_mb": 2048, "root_gb": 10}


def host(name, **more):
    return dict({"host": name, "vcpus": 16, "memory_mb": 65536, "local_gb": 500}, **more)


def request(**more):
    return dict({"uuid": "vm", "flavor": FLAVOR}, **more)


def chosen(result):
    return [request.hosts for request in result.requests]
