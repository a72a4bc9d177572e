# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README as steps: what its blocks of code have a reader write and run, in the order of the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
SECTION = re.compile(r"^## On your own hosts\n(.*?)^Change them:", re.MULTILINE | re.DOTALL)
# A fenced file, which its first line names, or an indented line of commands.
STEP = re.compile(r"^```yaml\n# (?P<name>\S+)\n(?P<text>(?s:.*?))^```$|^ {4}(?P<command>\S.*)$", re.MULTILINE)
BEFORE = "@@ "  # begins the line that tells when a command began
TYPED = "hostname"  # to whatever reads from the terminal: the guest's shell


def steps(text):
    """[(name of a file, its text) or (None, command)]"""
    section = SECTION.search(text).group(1)
    return [(step["name"], step["text"] or step["command"]) for step in STEP.finditer(section)]


def script(found):
    """One shell that does all of them; it ends at the first command that fails."""
    lines = ["set -e"]
    for name, text in found:
        if name:
            lines.append("cat >%s <<'END OF FILE'\n%sEND OF FILE" % (name, text))
        else:
            lines.append('printf "\\n%s%%s %%s\\n" "$EPOCHREALTIME" %s' % (BEFORE, shlex.quote(text)))
            lines.append("{ %s\n} <<<%s" % (text, TYPED))
    return "\n".join([*lines, 'printf "\\n%s%%s end\\n" "$EPOCHREALTIME"' % BEFORE, ""])


def times(output):
    """[(command, seconds, what it printed)]"""
    parts = re.split("^%s" % BEFORE, output, flags=re.MULTILINE)[1:]
    heads = [part.partition("\n") for part in parts]
    began = [(*head.split(" ", 1), said) for head, _line, said in heads]
    return [(command, float(after[0]) - float(at), said) for (at, command, said), after in zip(began, began[1:])]
