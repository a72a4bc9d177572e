# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a cell in a table of a page."""

from __future__ import annotations


def escaped(text):
    return text.replace("``", "`").replace("|", "\\|").replace("<", "&lt;")
