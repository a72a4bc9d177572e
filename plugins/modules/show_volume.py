# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: show_volume
version_added: 1.0.0
short_description: Show the state of a volume
description:
  - Shows a volume, attached or not, its size, pool and host, the instance that has it, the image that it was made from, and its
    history with who did what in which run. Nothing is changed.
  - If the volume was deleted, shows which host had it, with its history. The host keeps that for 30 days.
  - Fails if no host has or had the volume and C(berth_volumes_defined) does not name it, or if it may be on a host that does not answer.
options:
  name:
    description: The name of the volume.
    type: str
    required: true
  project:
    description: The project of the volume. Without it the volumes of this name of all projects are shown; a deleted one, if it
      was of project C(default).
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Show a volume
  berth.kvm.show_volume:
    name: db
"""

RETURN = r"""
volumes:
  description: What each host reports about the volume. See M(berth.kvm.host_facts) and M(berth.kvm.volume_info).
  returned: success
  type: dict
  sample: {db: [{host: kvm1, project_id: default, size_gb: 20, pool: berth, instance: null, image: null, history: []}]}
deleted:
  description: If no host has the volume, the hosts that deleted it.
  returned: success
  type: dict
  sample: {db: [{host: kvm1, uuid: 2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11, history: [], faults: []}]}
ansible_facts:
  description: What the run reports as failed, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_results:
      description: The hosts that were C(left_out) with the reason. No instance has failed.
      type: dict
      sample: {failed: {}, left_out: {}}
"""
