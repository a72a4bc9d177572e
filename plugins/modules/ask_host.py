#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The work is done by the action plugin of the same name.

DOCUMENTATION = r"""
module: ask_host
short_description: Run a module of berth.kvm on a KVM host and take silence as an answer
description:
  - Runs on the host that the task is delegated to. A host that cannot be reached or a module that fails does not fail
    the task. The result has RV(reason) or RV(error) instead, so that one bad host does not stop the instances of others.

options:
  module:
    description: The module to run, without the collection's name.
    type: str
    required: true
    choices: [host_facts, claim, instance, migration, rescan]
  arguments:
    description: The module's arguments.
    type: dict
    default: {}
extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Ask all KVM hosts for their facts
  berth.kvm.ask_host:
    module: host_facts
  loop: "{{ groups.kvm_hosts }}"
  delegate_to: "{{ item }}"
  register: asked
"""

RETURN = r"""
reason:
  description: Why the host gave no answer.
  returned: when the host could not be reached
  type: str
  sample: "UNREACHABLE: ssh: connect to host kvm2 port 22: Connection timed out"
error:
  description: The module's typed error.
  returned: when the module failed
  type: dict
  sample: {code: HostBusy, message: "the host is locked by claim, process 4711", retryable: true}
"""
