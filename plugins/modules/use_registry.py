# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: use_registry
version_added: 1.0.0
short_description: Have a fleet use a registry, or be without one again
description:
  - Closes the registry that C(berth_registry) names, marks all hosts, writes there what they say they have, and opens it. From the
    first mark on, no run claims, builds or moves anything on the hosts until the end.
  - Refuses, and changes nothing, while an instance moves, while it is not known of an instance who owns it, and while a host that
    C(berth_lost_hosts) does not name does not answer.
  - A run that was cut off is finished by the next one, in either direction.
options:
  leave:
    description: Whether the hosts are to be without a registry again. They remember what it knew.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Have the fleet use the registry that berth_registry names
  berth.kvm.use_registry:
"""

RETURN = r"""
hosts:
  description: How many hosts belong to the registry now, or are without one.
  returned: success
  type: int
  sample: 3
instances:
  description: How many instances they have.
  returned: success
  type: int
  sample: 12
"""
