# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of an instance, each of another day, some of which stand on others."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.model.backups import Backup, Disk

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
NOW = "20260110T000000Z"


def of_day(day, previous=None):
    disk = Disk("root", "increment" if previous else "full", "", 1 << 30, 1 << 20, "0" * 64)
    on = previous and "202601%02dT000000Z" % previous
    return Backup("202601%02dT000000Z" % day, UUID, "web1", "default", "kvm1", on, False, (disk,), {"uuid": UUID})


CHAINS = [of_day(1), of_day(2, 1), of_day(3, 2), of_day(4), of_day(5, 4), of_day(6)]
