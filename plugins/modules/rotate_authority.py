# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rotate_authority
version_added: 1.0.0
short_description: Change the authorities that sign for live migration
description:
  - Does one step of a rotation. Between two steps the playbook C(berth.kvm.rotate_authority) runs the role
    P(berth.kvm.kvm_host#role) on all hosts.
  - Refuses with C(AuthorityStillNeeded) while a KVM host of the inventory has not shown to M(berth.kvm.sign_certificates), in
    this run, that it is done with the step before. Hosts with C(berth_host_certificates=false) do not count.
  - A step that an interrupted run has already done changes nothing.
options:
  phase:
    description: The phase to go to. In V(trust) the hosts get the new authority beside the old one, in V(sign) it signs for them,
      in V(drop) they get it alone, and V(rest) ends the rotation and removes the old key.
    type: str
    required: true
    choices: [trust, sign, drop, rest]
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.authorities
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Begin a rotation, or take up the one that is under way
  berth.kvm.rotate_authority:
    phase: trust
"""

RETURN = r"""
phase:
  description: The phase in which the rotation is now.
  returned: success
  type: str
  sample: trust
"""
