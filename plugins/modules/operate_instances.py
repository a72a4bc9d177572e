# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operate_instances
version_added: 1.0.0
short_description: "Internal: stop, start, delete or change instances"
description:
  - Part of the playbooks that act on existing instances, and of role C(berth.kvm.delete). Where no playbook of this run has
    found the instances, it reads the KVM hosts and finds them, as M(berth.kvm.locate_instances) does.
  - Has the hosts of the instances do what was asked, all at once, as many at a time as Ansible has forks, and shows the
    closing table.
  - Of a delete, an instance that is in a move is deleted on both of its hosts.
  - The task runs for each instance. The first one does the work of all, and each reports its own part.
options:
  operation:
    description: What to do, by the name of its playbook.
    type: str
    required: true
  may_fail:
    description: Whether the task ends well also if it failed for the instance. C(error) says why.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
