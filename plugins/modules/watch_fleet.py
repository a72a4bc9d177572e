# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: watch_fleet
version_added: 1.0.0
short_description: "Internal: find out which silent KVM hosts are to be evacuated"
description:
  - Part of the playbook C(berth.kvm.watch), which fences and evacuates them.
  - A host is down while neither the controller nor up to three other hosts reach its sshd. Since when is kept in
    C(berth/watch) below E(XDG_STATE_HOME); in check mode it is not written.
  - A host that was evacuated and is still down counts for no limit, and nothing more is done about it.
options:
  seconds:
    description: How long a host is down before it is evacuated.
    type: raw
    default: 300
  most:
    description: How many hosts are evacuated at once. If more are to be, none is.
    type: raw
    default: 1
  share:
    description: If more percent of the hosts are silent, none is evacuated, as the controller is probably cut off.
    type: raw
    default: 34
  evacuated:
    description: Hosts whose evacuation has come to its end, which later passes leave alone until they answer. Nothing is looked at.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
