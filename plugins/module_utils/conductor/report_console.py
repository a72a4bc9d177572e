# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The console of an instance, as people read it."""

from __future__ import annotations

from typing import Any, List, Mapping


def lines(name: str, host: str, console: Mapping[str, Any]) -> List[str]:
    """``console``: as module instance_info returns it."""
    ways = ["%s on %s: attach there with %s" % (name, host, console["attach"])]
    ways += ["screen (VNC) at %s there" % console["vnc"]] if console["vnc"] else []
    if console["addresses"]:
        ways.append("addresses %s" % ", ".join("%(address)s (%(source)s)" % each for each in console["addresses"]))
    shown = ["    " + line for line in console["lines"]] or ["    its console log is empty"]
    return ["", "; ".join(ways), *shown]
