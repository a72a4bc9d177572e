# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter explain: why placement chose or refused each host, as text."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.placement.explain import MOST_HOSTS, decision_text, documents
from ..plugin_utils.plain import plain

DOCUMENTATION = r"""
name: explain
version_added: 0.1.0
author: The berth.kvm authors
short_description: Renders why each host was or was not chosen
description:
  - Turns a receipt of placement, or the explanation document of one request, into a table for people.
positional: _input
options:
  _input:
    description: A receipt, or the explanation document of one request.
    type: dict
    required: true
  most:
    description: How many hosts are shown for each instance; the others are counted.
    type: int
    default: 40
"""

EXAMPLES = r"""
- name: Show a stored decision
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'receipt.json') | from_json | berth.kvm.explain }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: string
"""


def explain(value, most=MOST_HOSTS):
    """Return the text of a receipt or of one explanation document."""
    value = plain(value)
    found = [value]
    if isinstance(value, dict) and "matrix" in value:
        if value["matrix"] is None:
            raise AnsibleFilterError(
                "berth.kvm.explain: the receipt is of a fleet so large that it holds no matrix; replay it"
            )
        try:
            found = list(documents(value["matrix"]))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise AnsibleFilterError("berth.kvm.explain: the matrix of the receipt is damaged: %r" % error)
    if not all(
        isinstance(decision, dict) and {"name", "candidates", "instances"} <= set(decision) for decision in found
    ):
        raise AnsibleFilterError("berth.kvm.explain: needs a receipt, or the explanation document of one request")
    return "\n".join(decision_text(decision, most) for decision in found)


class FilterModule:
    def filters(self):
        return {"explain": explain}
