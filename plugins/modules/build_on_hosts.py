#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: build_on_hosts
version_added: 0.2.0
short_description: "Internal: have each host build all of its new instances in one run"
description:
  - Part of playbook C(berth.kvm.create). Runs module M(berth.kvm.build_instances) on each host where claims of this run stand.
    M(berth.kvm.build_instance) then reports the result of each instance.
  - A failure or a silent host does not fail the task. In check mode no host is asked.

extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Build and start the new instances
  berth.kvm.build_on_hosts:
  register: __berth_built
"""

RETURN = r"""
build:
  description: The inventory names of the instances that have to be built or brought to their state.
  returned: success
  type: list
  elements: str
  sample: [web-1]
answers:
  description: The result of M(berth.kvm.build_instance) for each build, by the token of its claim.
  returned: success
  type: dict
  sample: {0123456789abcdef0123456789abcdef: {changed: true, instance: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a}}}
"""
