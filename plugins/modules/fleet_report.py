# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
version_added: 0.1.0
short_description: Show the KVM hosts as a table
description:
  - Prints one line for each host, with its used and total resources, or the reason why it is left out.
options:
  dest:
    description: A file of the controller to write, for programs. It has C(hosts), the instances of each host as it reported them, with
      zone and address, and C(verdicts). It is for its owner only.
    type: path
    version_added: 1.0.0
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Show the fleet
  berth.kvm.fleet_report:
"""

RETURN = r"""
report:
  description: The lines.
  returned: success
  type: list
  elements: str
verdicts:
  description: Why a host was left out.
  returned: success
  type: dict
  sample: {kvm3: "UNREACHABLE: connection refused"}
"""
