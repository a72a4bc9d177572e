# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: set_up_registry
version_added: 1.0.0
short_description: "Internal: give the registry its users, and say how to use it"
description:
  - Waits until a majority of the hosts of group C(berth_registry_hosts) answers as members, at most 90 s. Makes etcd's users where
    there are none, so that controllers reach berth's keys alone, and tells the line for the inventory.
  - Runs in the controller. Part of the playbooks C(berth.kvm.prepare_registry) and C(berth.kvm.restore_registry).
options:
  directory:
    description: The directory of the authorities on the controller.
    type: path
    required: true
  restored:
    description: Whether a snapshot was restored. The registry becomes another one than before, and is closed until C(berth.kvm.audit) has
      compared it with all hosts.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
