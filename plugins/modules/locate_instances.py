# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: locate_instances
version_added: 0.1.0
short_description: "Internal: find the hosts that hold the instances"
description:
  - Part of the playbooks that act on existing instances. Reads what the hosts reported. An instance that was not found
    while a host is silent is unknown, and that is an error for this instance.
options:
  method:
    description:
      - What to do with them. An instance that is in a move, or resized and not confirmed, can only be deleted.
      - An instance that is locked, by V(lock) or with the variable C(berth_locked), is left alone, except by V(recover).
      - V(recover) finds only instances that are off and were not stopped. An instance that may be on a silent host, or is in a
        move, is left alone; this is not an error.
      - V(keep_one) finds the hosts whose copies are set aside, if more than one host owns an instance; the
        variable C(berth_keep_on) names the host whose copy stays. For V(remove_set_aside) it is the host of the variable
        C(berth_set_aside_on).
      - V(recover_record) leaves a copy that is older than what others remember of an owner that answers, and has no record of it,
        unless the variable C(berth_recover_on) names the host of that copy.
      - V(adopt) finds the guest, on the host of the variable C(berth_adopt_on) if that is given, that is to become the instance.
    type: str
    required: true
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.instances
  - berth.kvm.controller.hosts
  - berth.kvm.controller.selected
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
