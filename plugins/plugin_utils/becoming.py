# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distinguishes a module that failed from one that never ran because the login user could not become root on the host.

Ansible reports "Missing sudo password", or that the reply is not JSON, and puts sudo's own message at the end.
"""

from __future__ import annotations

import re

from ..module_utils.conductor.errors import BecomeFailed
from ..module_utils.model import fleet_hints

# Ansible's own messages, and how the program's messages begin: alone, or after the shell's name.
ANSIBLE = r"(?:Missing|Incorrect) %(method)s password|Timeout \(\w+\) waiting for privilege escalation prompt"
PROGRAM = r"(?:\S+: (?:\d+: |line \d+: )?)?%(method)s: (?!unable to (?:resolve host|send audit)|setrlimit).*"
REFUSALS = r"Sorry, (?:user|try again).*|\S+ is not (?:in the sudoers file|allowed to (?:run|execute)).*"
RAN = "Traceback (most recent call last)"  # the module was run, as whichever user
MOST = 300  # characters of the message


def explained(become, host, result):
    """A checked result; BecomeFailed replaces an untyped failure of the become method. ``become``: plugin or None."""
    if result.get("error_code") != "ModuleFailed" or not become:
        return result
    method = become.name.rpartition(".")[2]
    message = words_of(method, result["error"]["message"])
    if not message:
        return result
    error = BecomeFailed(
        "%s: the login user cannot become root with %s: %s" % (host, method, message),
        hint=fleet_hints.allow_become(host, method),
    )
    return {"failed": True, "changed": False, **error.to_result()}


def words_of(method, message):
    """What the become method, or Ansible about it, says in a failure's message; empty if it is about something else."""
    if RAN in message:
        return ""
    patterns = "|".join([ANSIBLE, PROGRAM, REFUSALS]) % {"method": re.escape(method)}
    found = re.search(r"(?:^|: |\n)(%s)" % patterns, message)
    return found.group(1).strip()[:MOST] if found else ""
