# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: placement
version_added: 0.1.0
short_description: Choose a KVM host for each instance
description:
  - Reads what the hosts reported, checks it, and selects hosts as OpenStack Nova's scheduler does, with an explanation of
    every decision. Runs in the controller, changes nothing, and does the same in check mode.
  - An instance that a host holds already is not placed again. A host that did not answer, or whose facts break the
    schema, gets a verdict that says so, and the others are used.
  - The flavors, images and other catalog variables are read from the variables of the host that runs the task, so define
    them for all hosts.
options:
  instances:
    description: The inventory names of the instances. Hosts without the variable C(berth_flavor) are passed over.
    type: list
    elements: str
    default: []
  options:
    description: Scheduler options that override those of the variable C(berth_placement).
    type: dict
    default: {}
  seed:
    description:
      - The seed of the random choices, from 0 to 999999999. The same seed and the same hosts give the same selections.
      - Default, the variable C(berth_seed), then the seed in C(berth_approved), then one that is drawn.
    type: int
  receipt_dir:
    description: A directory on the controller where the receipt of the decision is written, instead of the controller's own
      C(${XDG_STATE_HOME:-~/.local/state}/berth/receipts); C(berth.kvm.replay) decides again from it.
    type: path
  take_over:
    description: Whether instances that no host has any more get their existing disks instead of new ones. The disks are on
      storage that the hosts of C(berth_lost_hosts) shared with others.
    type: bool
    default: false
    version_added: 1.0.0
  plan:
    description: Whether to make the plan that playbook C(berth.kvm.create) follows, as fact C(berth_plan). With a plan, an
      instance that gets no host fails alone, and the others continue. If then nothing is left to build, the task ends
      the run as M(berth.kvm.create_instances) does. Without a plan, an instance that gets no host makes the task fail.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Where would these instances go
  berth.kvm.placement:
    instances: [web-1, web-2]
  register: placed

# In a play of your own, read the hosts first. The facts that Ansible has count, also older ones of a fact cache.
- name: Read the KVM hosts
  hosts: kvm_hosts
  gather_facts: false
  tasks:
    - name: Gather the host state
      berth.kvm.host_facts:
      become: true

- name: Choose hosts
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Where would web-1 go
      berth.kvm.placement:
        instances: [web-1]
      register: placed
"""

RETURN = r"""
selections:
  description: For each placed instance the host, the alternates, the allocation and the limits.
  returned: success
  type: dict
  sample:
    web-1:
      uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
      host: kvm2
      alternates: [{host: kvm1}]
      allocation: {vcpus: 1, memory_mb: 512, disk_gb: 4}
failures:
  description: For each instance that got no host the error.
  returned: success
  type: dict
  sample: {web-2: {code: NoValidHost, message: "No valid host was found"}}
approval:
  description: For each instance that is to be made its host, a digest of its request and the seed of the random choices, for the
    variable C(berth_approved).
  returned: without a plan
  type: dict
  version_added: "1.0.0"
  sample: {web-1: {host: kvm2, request: 9f2c41d07be3, seed: 481516234}}
existing:
  description: The host of each instance that exists already.
  returned: success
  type: dict
  sample: {db-1: kvm1}
verdicts:
  description: Why a host was left out.
  returned: success
  type: dict
  sample: {kvm3: "UNREACHABLE: connection refused"}
explanation:
  description: What each filter and weigher said about every host, as text, and what would help the instances that got no host.
  returned: without a plan, with -v, and when an instance got no host
  type: str
outcomes:
  description: What became of each instance, as M(berth.kvm.create_instances) describes it.
  returned: with a plan that has nothing to build
  type: list
  elements: dict
  sample: [{instance: web-1, state: unchanged, host: kvm2, flavor: small, why: is there already}]
receipt:
  description: The decision as one document that can be replayed offline.
  returned: when a directory for receipts is given
  type: dict
receipt_file:
  description: Where the receipt was written, by default compressed and with the documents of the hosts.
  returned: when one was written
  type: str
  sample: /var/lib/awx/receipts/placement-r-8f31c2d0.json
"""
