# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converts Ansible's tagged and lazily templated containers to plain Python objects, once, at the boundary."""

from __future__ import annotations

import json
import re


def plain(value):
    """A deep copy of ``value`` made of exact dict, list, str, int, float, bool and None; templates are rendered.

    The C encoder of json reads any subclass of these types; 1000 host documents take less time than reading their
    hostvars.
    """
    return json.loads(json.dumps(value))


def number(value):
    """Convert a number that -e or a survey gave as text."""
    return int(value) if isinstance(value, str) and re.fullmatch("-?[0-9]{1,9}", value) else value
