# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs this playbook, and the id of the run: what the history of an instance records for each action."""

from __future__ import annotations

import getpass
import secrets
import socket

from ..module_utils.model.safe_text import clean
from . import interruption

# Modules that write events into records.
NOTING = ("build_instances", "claim", "group_members", "instance", "instance_copy", "migration", "volume")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


# Ansible's strategy loads the actions before it forks, so all its processes share these two.
WHO = clean("%s@%s" % (_user(), socket.gethostname()), 128)
RUN = "r-" + secrets.token_hex(4)


interruption.announce()


def by():
    """The argument ``by`` of modules that write events."""
    return {"who": WHO, "run": RUN}
