#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: make_volumes
version_added: 0.2.0
short_description: "Internal: make and grow volumes for existing instances"
description:
  - Part of playbook C(berth.kvm.update_disks). Claims each volume that no host has on the host of its instance, reads all hosts
    again, and makes those that no other run makes elsewhere and that the quotas allow. The claims of the others are withdrawn and
    their instances fail.
  - In the same way claims the larger size of each volume that is to grow, and confirms the claim if the quotas allow
    it. Otherwise the volume
    stays as it is, and the instance fails.
  - A new volume is empty and free until the playbook attaches it.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Make the new volumes
  berth.kvm.make_volumes:
"""

RETURN = r"""
ansible_facts:
  description: The instances of the run, as a fact of localhost. Those whose volumes were not made, or may not grow, have failed.
  returned: where a volume was to be made or to grow
  type: dict
  contains:
    berth_located:
      description: As of M(berth.kvm.locate_instances).
      type: dict
      sample: {names: [web-1], found: [web-1], moving: [], errors: {}}
"""
