# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: prepare_outage_unit
version_added: 1.0.0
short_description: "Internal: have a KVM host start its guests after a boot as the registry says"
description:
  - Installs a unit of systemd that asks the registry once after each boot which instances the host still owns, and starts those of
    them that should run, without a controller. It may only read there.
  - Part of role P(berth.kvm.kvm_host#role) where the fleet has a registry.
options:
  registry:
    description: The members of the registry, as in C(berth_registry).
    type: str
    required: true
  directory:
    description: The directory on the controller with the authorities.
    type: path
    required: true
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
