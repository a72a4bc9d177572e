# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: audit_registry
version_added: 1.0.0
short_description: Compare the registry with the hosts, and mend it by what they say
description:
  - Tells each difference by name. Mends those where the hosts prove what is right; it raises epochs and never lowers one. A host
    becomes the owner of an instance only if no other host may have it.
  - A registry that is closed because it was restored is opened at the end. All hosts have to answer for that, or to be named in
    C(berth_lost_hosts).
  - In check mode it only tells.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Compare the registry with the hosts
  berth.kvm.audit_registry:
"""

RETURN = r"""
differences:
  description: What differed, with C(what) it is about, a C(text), and whether an audit C(mends) it.
  returned: success
  type: list
  elements: dict
  sample: [{what: web1, text: "kvm2 has it, the registry says no host", mends: true}]
left:
  description: How many differences are left to a person.
  returned: success
  type: int
  sample: 0
opened:
  description: Whether the registry was closed before.
  returned: success
  type: bool
  sample: false
"""
