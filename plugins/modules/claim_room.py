#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: claim_room
version_added: 0.2.0
short_description: "Internal: claim room on the chosen hosts and decide which claims stand"
description:
  - Part of playbook C(berth.kvm.create). Claims room on the hosts that placement chose, then reads all hosts again. A
    claim stands if no other host holds the instance, if no host remembers that a silent host holds it, and if all hosts
    together keep the policy of the server group and the quota. The other claims are withdrawn or tried on another host.

extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Claim room on the hosts
  berth.kvm.claim_room:
"""

RETURN = r"""
ansible_facts:
  description: The plan of the run, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_plan:
      description: What is claimed where, what is built, what is tried next, and why an instance failed.
      type: dict
      sample: {round: 1, claims: {}, build: [web-1], failed: []}
"""
