# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a host does not answer, in one short line: ssh and Ansible say it in many, with banners and the host's name. -v adds
their own text."""

from __future__ import annotations

import re

from ..module_utils.model.safe_text import clean
from .screen import verbosity

LONGEST = 100  # characters of what is not known here
# In this order: what ssh says about a host key also has the words of a login that failed. "privilege escalation prompt" is what
# Ansible waits for on a host that went off while it logged in.
CAUSES = (
    (r"host key verification failed|host identification has changed", "its host key changed or is not known"),
    (r"(missing|incorrect) \w+ password", "sudo wants a password"),
    (r"permission denied|authentication fail|too many authentication", "authentication failed"),
    (r"could not resolve|name or service not known|nodename nor servname|name resolution", "its name is not known"),
    (r"no route to host|network is unreachable|host is down", "no route to host"),
    (r"connection refused", "connection refused"),
    (r"privilege escalation prompt|timed? ?out", "no answer in time"),
    (r"connection (reset|closed)|closed by|broken pipe|lost connection", "the connection broke"),
)  # fmt: skip
OURS = re.compile(r"no answer within \d+ s \(berth_host_timeout\)")


def cause(said: str) -> str:
    """``said``: by ssh or Ansible about a host that does not answer."""
    own = OURS.search(said)
    found = [text for pattern, text in CAUSES if re.search(pattern, said, re.IGNORECASE)]
    if not own and not found:
        return clean(said.strip().rpartition("\n")[2], LONGEST)
    short = own.group() if own else found[0]
    return "%s; %s" % (short, clean(said)) if verbosity() and not own else short
