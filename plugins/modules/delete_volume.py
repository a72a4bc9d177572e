# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: delete_volume
version_added: 1.0.0
short_description: Remove a volume that no instance has
description:
  - Finds the host that has the volume and deletes it there, with all its data. Refuses a volume that an instance uses,
    and a volume that no host reports while another host does not answer.
options:
  name:
    description: The name of the volume.
    type: str
  project:
    description: Its project.
    type: str
    default: default
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Remove a volume
  berth.kvm.delete_volume:
    name: db
"""

RETURN = r"""
volume:
  description: The name of the volume.
  returned: success
  type: str
  sample: db
project:
  description: The project of the volume.
  returned: success
  type: str
  sample: default
host:
  description: The host that had it, or null where no host had it.
  returned: success
  type: str
  sample: kvm1
"""
