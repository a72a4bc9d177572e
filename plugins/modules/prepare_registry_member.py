# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: prepare_registry_member
version_added: 1.0.0
short_description: "Internal: make a host of group berth_registry_hosts a member of the registry"
description:
  - Has M(berth.kvm.registry_member) make a key, signs a certificate for it where there is none, it is due or is for other names, and has
    it write etcd's settings, the service and the backups.
  - The registry has an authority of its own in O(directory), which is made at first use, as are the passwords of etcd's users.
  - Part of role P(berth.kvm.kvm_registry#role).
options:
  directory:
    description: The directory of the authorities on the controller.
    type: path
    required: true
  quota_gb:
    description: How many GiB the registry may take, 1 to 64.
    type: int
    required: true
  backup_directory:
    description: Where the member keeps its backups.
    type: path
    required: true
  backups:
    description: How many of them it keeps.
    type: int
    required: true
  snapshot:
    description: A snapshot on the controller, which is restored. The service must not run on any member then.
    type: path
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
