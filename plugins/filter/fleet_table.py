# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter fleet_table: host state documents as a table of the fleet."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.placement.explain import fleet_text
from ..plugin_utils.plain import plain

DOCUMENTATION = r"""
name: fleet_table
version_added: 0.1.0
author: The berth.kvm authors
short_description: Renders hosts as a table
description:
  - Turns the host state documents of C(berth.kvm.host_facts) into a table of the fleet.
positional: _input
options:
  _input:
    description: Host state documents, as a list or as a mapping by host name.
    type: raw
    required: true
  left_out:
    description: Hosts that take no part, with the reason, as the C(verdicts) of C(berth.kvm.placement).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the fleet
  ansible.builtin.debug:
    msg: "{{ groups['kvm_hosts'] | map('extract', hostvars, 'berth_host') | berth.kvm.fleet_table }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: string
"""


def fleet_table(value, left_out=None):
    documents = list(value.values()) if hasattr(value, "values") else list(value)
    try:
        return fleet_text(plain(documents), plain(left_out or {}))
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError("berth.kvm.fleet_table: needs host state documents: %s" % error) from error


class FilterModule:
    def filters(self):
        return {"fleet_table": fleet_table}
