# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: remove_host
version_added: 1.0.0
short_description: Clean a KVM host that leaves the fleet, and revoke its certificates
description:
  - Refuses with C(HostInUse), and changes nothing, while the host has records of instances or volumes, files of them, or a guest of
    berth without a record, and while it does not answer. A host that C(berth_lost_hosts) names is not asked. Both kinds
    of hosts are refused while other hosts remember instances there that no other host has. All instances of the
    inventory count, whichever the run selects.
  - Tells the other hosts what this host remembers about instances, also about those that are in no inventory. Then removes
    from it what M(berth.kvm.host_prepare), M(berth.kvm.host_certificates) and later runs put there, and restarts libvirt if
    it had certificates of ours; guests keep running. From the first step on nothing is claimed on the host. Packages,
    libvirt, storage pools with their files, guests and certificates of others and an edited hook stay.
  - Over a registry, has that forget the host before it is cleaned, and refuses with C(HostInUse), and changes nothing, while the
    registry has an instance there, or one that a run has begun to make or move there.
  - Tells the other hosts that it belongs to the fleet no more, so it does not count when new instances need the answers of more
    than half of the hosts.
  - Revokes all certificates that the authorities of M(berth.kvm.sign_certificates) gave the host. The other
    hosts get that list by the next run of playbook C(berth.kvm.prepare_hosts).
  - A run that was interrupted can be run again. If the host is to stay after all, C(berth.kvm.prepare_hosts) makes it a
    member again.
options:
  name:
    description: The host, as the inventory calls it.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.authorities
  - berth.kvm.controller.hosts
attributes:
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Remove a host from the fleet
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
removed:
  description: The files and directories that were removed on the host. Empty where it was not asked.
  returned: success
  type: list
  elements: str
  sample: [/etc/berth/host.json, /var/lib/berth]
left:
  description: What was found there and left, each with the reason.
  returned: success
  type: list
  elements: str
  sample: ["/etc/libvirt/hooks/qemu.d/berth: it is not as berth wrote it"]
"""
