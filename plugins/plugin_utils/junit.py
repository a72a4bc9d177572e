# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of checks as JUnit XML, which systems for continuous integration read."""

from __future__ import annotations

from typing import Sequence, Tuple
from xml.etree import ElementTree

HEAD = b'<testsuite name="berth.kvm '


def junit(suite: str, results: Sequence[Tuple[str, str]]) -> bytes:
    """``results``: (name, why it failed, "" if it did not)."""
    failures = sum(bool(why) for _name, why in results)
    root = ElementTree.Element(
        "testsuite", name="berth.kvm %s" % suite, tests=str(len(results)), failures=str(failures), errors="0"
    )
    for name, why in results:
        case = ElementTree.SubElement(root, "testcase", classname="berth.kvm.%s" % suite, name=name)
        if why:
            ElementTree.SubElement(case, "failure", message=why)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=False) + b"\n"
