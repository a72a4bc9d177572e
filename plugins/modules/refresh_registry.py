# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: refresh_registry
version_added: 1.0.0
short_description: Read KVM hosts into the registry
description:
  - Writes what each host says into the registry, from which hosts are chosen. Several workers can each do so for a part of the
    hosts. What is older than what the registry has replaces nothing there.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Read the hosts of the play into the registry
  berth.kvm.refresh_registry:
"""

RETURN = r"""
written:
  description: The hosts whose words are in the registry now.
  returned: success
  type: list
  elements: str
  sample: [kvm1, kvm2]
newer:
  description: The hosts of which another run has written a later word.
  returned: success
  type: list
  elements: str
  sample: []
failed:
  description: The hosts that were not read, and why.
  returned: success
  type: dict
  sample: {kvm3: "UNREACHABLE: No route to host"}
"""
