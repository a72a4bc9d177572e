# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of the collection, for the documents it writes: a KVM host has no galaxy.yml."""

from __future__ import annotations

COLLECTION_VERSION = "1.0.0"
