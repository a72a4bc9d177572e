# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""berth_state: the power state that the inventory asks for. A locked guest stays as it is."""

from __future__ import annotations

from typing import Any, Optional


def power_state(berth_state: Any, locked: Any) -> Optional[str]:
    """The power state that berth_state asks for. None leaves the guest as it is, as for a locked instance."""
    return None if locked else {"active": "running", "stopped": "shutdown"}.get(berth_state)
