# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers that write the parts of a guest's definition."""

from __future__ import annotations

from xml.etree import ElementTree

MIB = 1024  # KiB


def child(parent, tag, text=None, **attributes):
    element = ElementTree.SubElement(
        parent, tag, {name: str(value) for name, value in attributes.items() if value is not None}
    )
    if text is not None:
        element.text = str(text)
    return element


def ranges(numbers):
    """Return "0-3,8" for a set of numbers."""
    parts = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else "%d-%d" % (low, high) for low, high in parts)
