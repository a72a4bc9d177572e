# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tutorial.md, run as it is on the lab of the tests: each block of commands, and what it shows of their output."""

from __future__ import annotations

import re

from client import REPOSITORY, run

from playbooks import left

BLOCK = re.compile(r"^```(sh|sh lab|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(lab):
    """[(commands, lines shown)]; the blocks that bring a lab up and down are not for the lab of the tests."""
    text = (REPOSITORY / "docs" / "tutorial.md").read_text("utf-8")
    found = []
    for kind, body in BLOCK.findall(text.replace(".cache/lab/berth/", "%s/" % lab.state)):
        if kind == "sh":
            found.append((body, []))
        elif kind == "text":
            found[-1][1].extend(body.splitlines())
    return found


def pattern(line):
    """A line of the page as an expression: any number of spaces between words, and anything for dots."""
    words = [re.escape(word).replace(r"\.\.\.", ".*") for word in line.split()]
    return r"\s*".join(words) if "..." in line else r"\s+".join(words)


def test_the_tutorial_does_what_it_says(lab):
    before, taken = "set -e\n", 0
    for commands, shown in steps(lab):
        done = run(["bash", "-c", before + commands], env=lab.environment(), check=True, timeout=300)
        for line in shown:
            assert re.search(pattern(line), done.output), "%s\nprinted no line like: %s\n%s" % (
                commands,
                line,
                done.output,
            )
        before += "".join(line + "\n" for line in commands.splitlines() if line.startswith("fleet="))
        taken += len(shown)
    assert taken > 8, "the page shows what its commands print"
    assert left(lab) == {}
