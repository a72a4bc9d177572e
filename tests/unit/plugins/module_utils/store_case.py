# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record to store, and another process that stores one."""

from __future__ import annotations

import multiprocessing

from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OTHER = "1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
FORK = multiprocessing.get_context("fork")


def record(uuid=UUID, **changes):
    parts = dict(
        uuid=uuid,
        name="web-1",
        project_id="default",
        role="CLAIM",
        generation=[0, 1],
        token="t1",
        phase="claimed",
        spec={"name": "web-1", "flavor": {"name": "tiny"}},
        resources={"vcpus": 1},
    )
    return Record(**{**parts, **changes})
