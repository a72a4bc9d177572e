# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that is common to all actions that work on the controller."""

    DOCUMENTATION = r"""
author:
  - The berth.kvm authors (!UNKNOWN)
options: {}
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything.
  diff_mode:
    support: none
    description: Returns what has changed, or would in check mode.
  action:
    support: full
    description: Has an action plugin that does the work on the controller.
requirements:
  - ansible-core 2.19 or newer
"""

    # The options of the actions that work on instances of the inventory.
    INSTANCES = r"""
options:
  instances:
    description: The inventory names of the instances. Hosts without the variable C(berth_flavor) are left out.
    type: list
    elements: str
    required: true
"""

    HOSTS = r"""
options:
  hosts:
    description: The inventory names of the KVM hosts. By default the hosts of group C(kvm_hosts).
    type: list
    elements: str
"""

    AUTHORITIES = r"""
options:
  directory:
    description: Where the authorities are where no KVM host has the variable C(berth_ca_directory).
    type: path
    default: ~/.berth/ca
"""

    SELECTED = r"""
options:
  selected:
    description: Whether the instances were selected explicitly. Without that the run is refused.
    type: bool
    default: true
"""
