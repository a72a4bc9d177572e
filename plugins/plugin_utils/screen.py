# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All our text reaches the terminal through this file, which makes control characters from a host visible."""

from __future__ import annotations

from typing import List

from ansible import constants as C  # noqa: N812 -- Ansible's usual name for them
from ansible.utils.display import Display

from ..module_utils.model.safe_text import visible


def is_for_programs(callback: str) -> bool:
    """Whether this callback writes a document to stdout, such as ansible.posix.json, which our text would break."""
    return str(callback).rpartition(".")[2] in ("json", "jsonl", "junit", "null")


def say(*lines: str) -> List[str]:
    """Show each as one line: a line feed inside one could fake a line. Return what was shown."""
    shown = [visible(line) for line in lines]
    Display().display("\n".join(shown), stderr=is_for_programs(C.DEFAULT_STDOUT_CALLBACK))
    return shown


def warn(line: str) -> None:
    Display().warning(visible(line))


def verbosity() -> int:
    """The number of -v of the run."""
    return Display().verbosity
