# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ask_hosts
version_added: 1.0.0
short_description: "Internal: run a module of berth.kvm on several KVM hosts at once"
description:
  - Runs a module on each of O(hosts) as C(delegate_to) would, with the host's own address, user, key, C(become) and
    Python. At most as many hosts are asked at once as Ansible has forks, counted over all hosts of the play.
  - A host that cannot be reached or a module that fails does not fail the task. Instead, the answer of that host has
    C(reason) or C(error), so that one bad host does not stop the instances on the other hosts.
  - A host that does not answer within C(berth_host_timeout) seconds (default 60) counts as unreachable. A host whose
    reply is larger than 16 MiB or never ends counts as failed.
  - The task itself needs no connection. Delegate it to C(localhost), so that the address of the asking host does not
    matter.
options:
  hosts:
    description: Inventory names of the KVM hosts to ask. They need not be in the play, nor in C(--limit).
    type: list
    elements: str
    required: true
  module:
    description: The module to run, without the collection's name.
    type: str
    required: true
    choices: [host_facts, claim, rescan]
  arguments:
    description: The module's arguments.
    type: dict
    default: {}
  host_arguments:
    description:
      - Arguments that differ from host to host. The key is the argument, the value is a dictionary of hosts and values.
      - A host that is not in there does not get the argument.
    type: dict
    default: {}
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
