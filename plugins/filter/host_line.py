# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter host_line: a host state document on one line, as Nova prints a HostState."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.placement.explain import host_line as line_of
from ..plugin_utils.plain import plain

DOCUMENTATION = r"""
name: host_line
version_added: 0.1.0
author: The berth.kvm authors
short_description: Renders a host on one line
description:
  - Turns a host state document into the line that Nova prints for a HostState.
positional: _input
options:
  _input:
    description: A host state document of C(berth.kvm.host_facts).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show each host on one line
  ansible.builtin.debug:
    msg: "{{ berth_host | berth.kvm.host_line }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: string
"""


def host_line(value):
    try:
        return line_of(plain(value))
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError("berth.kvm.host_line: needs a host state document: %s" % error) from error


class FilterModule:
    def filters(self):
        return {"host_line": host_line}
