#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: record_builds
version_added: 0.2.0
short_description: "Internal: record what the hosts built and choose what to try next"
description:
  - Part of playbook C(berth.kvm.create). If another host may succeed, a failed build is tried on its next alternate,
    until the attempts or the alternates are used up.
  - When nothing is left to try, withdraws unused claims, records failed builds on the hosts, tells all hosts who owns the
    instances, and shows the closing table.

extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Record the results of the builds
  berth.kvm.record_builds:
"""

RETURN = r"""
outcomes:
  description: What became of each instance, as in the table.
  returned: when nothing is left to try
  type: list
  elements: dict
  sample: [{instance: web-1, state: active, host: kvm2, flavor: small, address: 192.0.2.11, why: "weight 2.0, first of 2 hosts"}]
ansible_facts:
  description: The plan of the run after this round, as M(berth.kvm.claim_room) describes it.
  returned: success
  type: dict
"""
