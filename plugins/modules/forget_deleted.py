# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: forget_deleted
version_added: 0.2.0
short_description: "Internal: have all hosts forget who owned the deleted instances"
description:
  - Part of playbook C(berth.kvm.delete). Instances that could not be deleted are not forgotten.
extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Have all hosts forget what was deleted
  berth.kvm.forget_deleted:
"""

RETURN = r"""#"""
