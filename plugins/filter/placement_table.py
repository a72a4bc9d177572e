# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter placement_table: the result of a placement as a table of its instances."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.placement.text import table
from ..plugin_utils.plain import plain

DOCUMENTATION = r"""
name: placement_table
version_added: 0.1.0
author: The berth.kvm authors
short_description: Renders the result of placement as a table
description:
  - Turns what task C(berth.kvm.placement) returns into a table with one line for each instance.
positional: _input
options:
  _input:
    description: The registered result of C(berth.kvm.placement).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show where the instances go
  ansible.builtin.debug:
    msg: "{{ placed | berth.kvm.placement_table }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: string
"""

HEADS = ("INSTANCE", "HOST", "VCPUS", "MEMORY MiB", "DISK GiB", "ALTERNATES OR REASON")


def placement_table(value):
    """Return a table with a line per instance: placed, existing already, or failed with the reason."""
    value = plain(value)
    if not isinstance(value, dict) or "selections" not in value:
        raise AnsibleFilterError("berth.kvm.placement_table: needs the result of berth.kvm.placement")
    rows = [_selected(name, selection) for name, selection in value["selections"].items()]
    rows += [(name, host, "", "", "", "exists already") for name, host in (value.get("existing") or {}).items()]
    rows += [(name, "-", "", "", "", _reason(error)) for name, error in (value.get("failures") or {}).items()]
    return "\n".join(table(HEADS, sorted(rows), indent="")) + "\n"


def _selected(name, selection):
    allocation = selection.get("allocation") or {}
    cpus = (allocation.get("vcpus") or 0) + (allocation.get("pcpus") or 0)
    others = ", ".join(other["host"] for other in selection.get("alternates") or ()) or "no alternate"
    return (name, selection["host"], cpus, allocation.get("memory_mb", ""), allocation.get("disk_gb", ""), others)


def _reason(error):
    return "%s: %s" % (error.get("code"), error.get("message")) if isinstance(error, dict) else str(error)


class FilterModule:
    def filters(self):
        return {"placement_table": placement_table}
