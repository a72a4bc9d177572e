# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parts of a definition libvirt dropped: it accepts elements that it does not know, and silently omits them."""

from __future__ import annotations

from xml.etree import ElementTree

from ..errors import BuildFailed


def check(xml, text):
    """Raise BuildFailed naming the parts of the defined ``xml`` that are not in ``text``, which was read back."""
    lost = missing(ElementTree.fromstring(xml), ElementTree.fromstring(text))
    if lost:
        raise BuildFailed("libvirt dropped parts of the definition: %s" % ", ".join(lost[:5]))


def missing(wanted, found, path=""):
    """Return what of ``wanted`` is not in ``found``, by its path."""
    lost = []
    for child in wanted:
        here = "%s/%s" % (path, child.tag)
        candidates = found.findall(child.tag)
        if not candidates:
            lost.append(here)
        elif not any(not missing(child, candidate, here) and _same(child, candidate) for candidate in candidates):
            lost.extend(min((missing(child, candidate, here) for candidate in candidates), key=len) or [here])
    return lost


def _same(wanted, found):
    """Whether text and attributes are those that were asked for. libvirt expands a machine type."""
    if wanted.tag == "type":
        return True
    if (wanted.text or "").strip() and wanted.text.strip() != (found.text or "").strip():
        return False
    return all(_plain(found.get(name)) == _plain(value) for name, value in wanted.attrib.items())


def _plain(value):
    """Normalize a value: 0x00 and 0x0000 are one number to libvirt."""
    if value is not None and value.startswith("0x"):
        return int(value, 16)
    return value
