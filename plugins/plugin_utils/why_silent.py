# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a host does not answer, in one short line: ssh and Ansible say it in many, with banners and the host's name. -v adds
their own text."""

from __future__ import annotations

import re
from typing import Optional

from ..module_utils.conductor.errors import BecomeFailed, HostNotAsked, PythonUnusable
from ..module_utils.model import fleet_hints, input_hints
from ..module_utils.model.safe_text import clean
from .screen import verbosity

LONGEST = 100  # characters of what is not known here
FORGET_KEY = re.compile(r"ssh-keygen -f [^\n]+? -R \S+")  # as ssh itself says it, with its file
NEW_KEY = (
    "no login: its host key changed. Compare the new one at the host, remove the old one (%s) and log in once by hand"
)
# In this order: what ssh says about a host key also has the words of a login that failed. "privilege escalation prompt" is what
# Ansible waits for on a host that went off while it logged in.
CAUSES = (
    (r"host identification has changed", NEW_KEY),
    (r"host key verification failed", "no login: its host key is not known: log in once by hand"),
    (r"(missing|incorrect) \w+ password", "sudo wants a password: add --ask-become-pass"),
    (r"permission denied|authentication fail|too many authentication", "no login: authentication failed: correct ansible_user or its key"),
    (r"could not resolve|name or service not known|nodename nor servname|name resolution", "its name is not known: set ansible_host"),
    (r"no route to host|network is unreachable|host is down", "no route to host"),
    (r"connection refused", "connection refused"),
    (r"privilege escalation prompt|timed? ?out", "no answer in time"),
    (r"connection (reset|closed)|closed by|broken pipe|lost connection|data could not be sent", "the connection broke"),
)  # fmt: skip
OURS = re.compile(r"no answer within \d+ s \(berth_host_timeout\)")


def cause(said: str) -> str:
    """``said``: by ssh or Ansible about a host that does not answer."""
    own = OURS.search(said)
    found = [text for pattern, text in CAUSES if re.search(pattern, said, re.IGNORECASE)]
    if not own and not found:
        return clean(said.strip().rpartition("\n")[2], LONGEST)
    short = own.group() if own else found[0]
    if short is NEW_KEY:
        command = FORGET_KEY.search(said)
        short = NEW_KEY % (clean(command.group()) if command else "ssh-keygen -R HOST")
    return "%s; %s" % (short, clean(said)) if verbosity() and not own else short


# What Ansible says of variables that it cannot render: it has not looked for the host yet.
OF_INVENTORY = re.compile(r"vault secrets|is undefined\b|Error (processing keyword|rendering template)")


def not_asked(message: str) -> Optional[HostNotAsked]:
    """The error of a task that ended before the module ran, if a variable of the inventory ended it."""
    if not OF_INVENTORY.search(message):
        return None
    hint = input_hints.give_vault_password() if "vault secrets" in message else fleet_hints.correct_login()
    return HostNotAsked(message.rstrip("."), hint=hint)


# Distinguishes a module that failed from one that never ran because the login user could not become root on the host.
#
# Ansible reports "Missing sudo password", or that the reply is not JSON, and puts sudo's own message at the end.

# Ansible's own messages, and how the program's messages begin: alone, or after the shell's name.
ANSIBLE = r"(?:Missing|Incorrect) %(method)s password|Timeout \(\w+\) waiting for privilege escalation prompt"
PROGRAM = r"(?:\S+: (?:\d+: |line \d+: )?)?%(method)s: (?!unable to (?:resolve host|send audit)|setrlimit).*"
REFUSALS = r"Sorry, (?:user|try again).*|\S+ is not (?:in the sudoers file|allowed to (?:run|execute)).*"
RAN = "Traceback (most recent call last)"  # the module was run, as whichever user
MOST = 300  # characters of the message
# What Ansible, the shell and a Python that is too old say instead of a reply.
NO_PYTHON = re.compile(
    r"interpreter .* was not found|python[\d.']*: (?:command )?not found|minimum of Python version|SyntaxError"
)


def explained(become, host, result):
    """A checked result; BecomeFailed replaces an untyped failure of the become method, PythonUnusable that of the Python.
    ``become``: plugin or None."""
    if result.get("error_code") != "ModuleFailed":
        return result
    refused = _of_become(become, host, result) if become else None
    said = result["error"]["message"]
    if refused or not NO_PYTHON.search(said) or RAN in said:
        return refused or result
    error = PythonUnusable("its Python ran no module: %s" % said.rstrip("."), hint=fleet_hints.correct_python(host))
    return {"failed": True, "changed": False, **error.to_result()}


def _of_become(become, host, result):
    method = become.name.rpartition(".")[2]
    message = words_of(method, result["error"]["message"])
    if not message:
        return None
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
