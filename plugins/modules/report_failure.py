# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report_failure
version_added: 1.0.0
short_description: "Internal: report an instance or a KVM host in its own name, so that the recap counts it"
description:
  - Part of the playbooks. Fails with the reason in the closing table. A KVM host that did not answer is unreachable.
options:
  msg:
    description: The reason, where no closing table has it.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = r"""#"""
