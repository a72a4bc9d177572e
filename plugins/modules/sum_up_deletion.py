#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The work is done by the action plugin of the same name.

DOCUMENTATION = r"""
module: sum_up_deletion
short_description: "Internal: find out which instances are gone"
description:
  - Part of playbook C(berth.kvm.delete). What was deleted is told to all hosts, so that none of them remembers its owner any more.

extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: See which are gone
  berth.kvm.sum_up_deletion:
"""

RETURN = r"""
ansible_facts:
  description: What to tell the hosts, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_gone:
      description: The option O(berth.kvm.rescan#module:told) of M(berth.kvm.rescan); empty where nothing is to be told.
      type: dict
      sample: {gone: {4c4c4544-0042-3510-8052-b4c04f4a3233: {0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a: [1, 7]}}}
"""
