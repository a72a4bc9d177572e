# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has found out about an instance, as the closing table gets it."""

from __future__ import annotations


def located(**more):
    return {"shown": {"web1": {"host": "kvm1", "flavor": "small"}}, "errors": {}, "skipped": {}, **more}
