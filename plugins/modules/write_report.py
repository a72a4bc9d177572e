# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_report
version_added: 1.0.0
short_description: "Internal: write the fleet as a page and as data"
description:
  - Part of the playbook C(berth.kvm.report). Writes what the hosts report about themselves and their instances, with the doctor's findings,
    as one self-contained HTML page and as a JSON file beside it.
  - In check mode no file is written.
options:
  asked:
    description: When the hosts were asked and had answered, in seconds since 1970.
    type: list
    elements: float
    required: true
  page:
    description:
      - The page, a name that ends in C(.html). The data get the same name with C(.json). Both are for their owner only.
      - An existing file is replaced only if it is an earlier report. A link is refused.
      - The default is C(berth/report/fleet.html) below E(XDG_STATE_HOME), which is C(~/.local/state) by default; for another
        fleet C(fleet-2.html) and so on.
    type: path
  metrics:
    description:
      - A file, whose name ends in C(.prom), for the textfile collector of Prometheus' node_exporter. Everybody may read it.
      - An existing file is replaced only if it has earlier metrics. Needs the Python package C(prometheus_client).
    type: path
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
