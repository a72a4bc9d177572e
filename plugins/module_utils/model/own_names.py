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
from .identity import MOST_OF_A_NAME, NAME, RESERVED, instance_uuid
from .messages import Document
from .volumes import volume_uuid

PROJECT = r"[A-Za-z0-9][A-Za-z0-9._-]*\Z"
NO_PROJECT = "?"  # of a volume whose name and project are not its own; no project has this name


def instance(told: Document, project: str) -> Document:
    """``told`` {uuid, name}, an instance of the project, with its own name."""
    name = told["name"]
    usable = len(name) <= MOST_OF_A_NAME and NAME.match(name) and name not in RESERVED
    return told if usable and instance_uuid(project, name) == told["uuid"] else {**told, "name": told["uuid"]}


def volume(told: Document) -> Document:
    """``told`` {uuid, name, project_id, instance} with its own name, and that of the instance that has it."""
    name, project, holder = told["name"], told["project_id"], told["instance"]
    named = {**told, "instance": holder and instance(holder, project)}
    usable = re.match(data_disks.NAME + r"\Z", name, re.ASCII) and re.match(PROJECT, project, re.ASCII)
    own = usable and volume_uuid(project, name) == told["uuid"]
    return named if own else {**named, "name": told["uuid"], "project_id": NO_PROJECT}
