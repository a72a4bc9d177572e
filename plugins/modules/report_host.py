# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report_host
version_added: 1.0.0
short_description: "Internal: note in the file of berth_report that the run has ended for a host"
description:
  - Part of the playbooks. If the run has already ended for the host with an error, the error stays in the file.
options:
  failed:
    description: Whether the run has failed for the host.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
