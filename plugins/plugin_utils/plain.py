# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converts Ansible's tagged and lazily templated containers to plain Python objects, once, at the boundary."""

from __future__ import annotations

import datetime
import json
import re

from ansible.errors import AnsibleError, AnsibleValueOmittedError

from ..module_utils.model import fleet_hints, input_hints
from ..module_utils.model.errors import InvalidInput

PLAIN = "text, a number, true, false, null, or a list or mapping of these"


def plain(value, field="a variable"):
    """A deep copy of ``value`` made of exact dict, list, str, int, float, bool and None; templates are rendered.

    The C encoder of json reads any subclass of these types; 1000 host documents take less time than reading their
    hostvars. Raises InvalidInput that names ``field`` for what has no plain form.
    """
    try:
        return json.loads(json.dumps(value, default=_text))
    except RecursionError:
        raise too_deep(field) from None
    except ValueError:  # Python turns no longer number into text
        raise InvalidInput(field, "a number of more than 4300 digits", PLAIN) from None


def rendered(field, render):
    """What ``render()`` returns, as plain data. Raises InvalidInput that names ``field`` for what Ansible cannot render, such as a
    lookup of a file that is not there."""
    try:
        return plain(render(), field)
    except AnsibleValueOmittedError:
        raise
    except AnsibleError as error:
        if _is_of_depth(error):
            raise too_deep(field) from None
        said = " ".join(str(error).split())
        hint = fleet_hints.define_or_keep() if said.endswith("is undefined") else None
        hint = input_hints.give_vault_password() if "vault secrets" in said else hint
        hint = input_hints.install_collection() if "plugin" in said and said.endswith("was not found.") else hint
        raise InvalidInput(field, "a template that fails", said, hint=hint) from None


def too_deep(field):
    return InvalidInput(
        field, "a list or mapping of hundreds of levels", "fewer levels, and no template that needs itself"
    )


def _is_of_depth(error):
    seen = []  # what Ansible raises again may be a cause of itself
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return any(isinstance(each, RecursionError) for each in seen)


def _text(value):
    """The text of a date, which YAML makes of 2026-01-31 without quotes. Raises InvalidInput for what has no plain form."""
    if isinstance(value, (datetime.date, datetime.time)):  # a datetime is a date
        return value.isoformat()
    raise InvalidInput("a variable", type(value).__name__, PLAIN)


def number(value):
    """Convert a number that -e or a survey gave as text."""
    return int(value) if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value) else value
