# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: create_instances
version_added: 1.0.0
short_description: "Internal: place, claim, build and start instances"
description:
  - Part of role C(berth.kvm.create). Without a plan of this run it reads the KVM hosts and places the instances of the play,
    as M(berth.kvm.placement) does.
  - Claims room on the hosts that placement chose, then reads all hosts again. A claim
    stands if no other host holds the instance, if no host remembers that a silent host holds it, and if all hosts
    together keep the policy of the server group and the quota. The other claims are withdrawn or tried on another host.
  - Has each host build its instances in one run. If another host may succeed, a failed build is tried on its next
    alternate, until the attempts or the alternates are used up.
  - At the end withdraws unused claims, records failed builds on the hosts, tells all hosts who owns the instances, and
    shows the closing table.
  - The task runs for each instance. The first one does the work of all, and each reports its own part.
options:
  hosts:
    description: The inventory names of the KVM hosts. By default the hosts of group C(kvm_hosts).
    type: list
    elements: str
  may_fail:
    description: Whether the task ends well also if nothing was built. C(error) says why.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
