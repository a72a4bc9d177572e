#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The work is done by the action plugin of the same name.

DOCUMENTATION = r"""
module: remove_host
version_added: 0.2.0
short_description: Revoke the certificates of a KVM host that leaves the fleet
description:
  - Refuses with C(HostInUse) while the host has records of instances or volumes, or a guest of berth without a record, and
    while it does not answer. A host that C(berth_lost_hosts) names is not asked. Either is refused while other hosts
    remember instances there that are nowhere else. All instances of the inventory count, whichever the run selects.
  - Has the authorities of M(berth.kvm.sign_certificates) note that none of the host's certificates counts any more. The other
    hosts get that list by the next run of playbook C(berth.kvm.prepare_hosts).
  - Changes nothing on any host.
options:
  name:
    description: The host, as the inventory calls it.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.authorities
  - berth.kvm.controller.hosts
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Revoke the certificates of a host
  berth.kvm.remove_host:
    name: kvm3
"""

RETURN = r"""
host:
  description: The host.
  returned: success
  type: str
  sample: kvm3
revoked:
  description: How many of its certificates counted until now.
  returned: success
  type: int
  sample: 2
"""
