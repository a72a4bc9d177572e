# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What instances and volumes of a host's facts are called: by the name from which their uuid follows, else by the uuid.

Hints name instances and volumes in commands, and these must not act on another one, or on all, because a host or a
record that somebody edited says so.
"""

from __future__ import annotations

import re

from . import data_disks
from .identity import MOST_OF_A_NAME, NAME, PROJECT, RESERVED, instance_uuid
from .messages import Document
from .volumes import volume_uuid

NO_PROJECT = "?"  # for what cannot be the name of a project


def instance(told: Document, project: str) -> Document:
    """``told`` {uuid, name}, an instance of the project, with its own name."""
    name = told["name"]
    usable = len(name) <= MOST_OF_A_NAME and NAME.match(name) and name not in RESERVED
    can_be = usable and re.match(PROJECT, project, re.ASCII)  # hints name both
    return told if can_be and instance_uuid(project, name) == told["uuid"] else {**told, "name": told["uuid"]}


def volume(told: Document) -> Document:
    """``told`` {uuid, name, project_id, instance} with its own name, and that of the instance that has it."""
    project = told["project_id"] if re.match(PROJECT, told["project_id"], re.ASCII) else NO_PROJECT
    usable = re.match(data_disks.NAME + r"\Z", told["name"], re.ASCII)
    name = told["name"] if usable and volume_uuid(project, told["name"]) == told["uuid"] else told["uuid"]
    holder = told["instance"] and instance(told["instance"], project)
    return {**told, "name": name, "project_id": project, "instance": holder}
