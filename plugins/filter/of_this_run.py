# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter of_this_run: what an earlier task of this run found, and nothing from a fact cache."""

from __future__ import annotations

from ..plugin_utils import acting

DOCUMENTATION = r"""
name: of_this_run
version_added: 1.0.0
author: The berth.kvm authors
short_description: "Internal: a fact of the controller if this run made it"
description:
  - The playbooks keep plans and results as facts of localhost. With a fact cache Ansible also has those of earlier runs,
    which are no longer true.
positional: _input
options:
  _input:
    description: The fact, such as C(berth_plan).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the plan of this run
  ansible.builtin.debug:
    msg: "{{ hostvars['localhost']['ansible_facts']['berth_plan'] | default({}) | berth.kvm.of_this_run }}"
"""

RETURN = r"""
_value:
  description: The fact, empty if another run made it.
  type: dict
"""


class FilterModule:
    def filters(self):
        return {"of_this_run": acting.of_this_run}
