# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who an instance is: a name that is safe everywhere, and a uuid that follows from it, or that it keeps under another name."""

from __future__ import annotations

import re
import uuid
from typing import Any, Dict, Mapping, Optional

from . import input_hints
from .errors import InvalidInput

DEFAULT_PROJECT = "default"
PROJECT = r"[A-Za-z0-9][A-Za-z0-9._-]*\Z"
NAMESPACE = uuid.UUID("7d1d3a6e-4c86-5d0e-9e4f-6a4b1c2f9b10")
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
NAME = re.compile(r"(?!.*\.[0-9]+\Z)%s(\.%s)*\Z" % (_LABEL, _LABEL), re.ASCII)
RESERVED = ("all", "localhost", "ungrouped")  # names with a meaning of their own in Ansible
ADOPTED, KEPT = "berth_adopted", "berth_uuid"  # each: a uuid that does not follow from the name
IDENTITY = ("berth_project", ADOPTED, KEPT)  # variables that say, with the name, which instance it is
OWN_UUIDS = {
    ADOPTED: "the uuid of the guest that was adopted, as berth.kvm.adopt tells it",
    KEPT: "the uuid that the instance keeps, as berth.kvm.rename tells it, and no other than berth_adopted",
}
MOST_OF_A_NAME = 200  # libvirt makes file names from it


def check_name(value: Any, field: str = "name") -> str:
    """Return ``value`` if it is a host name (RFC 1123, lower case), with or without domain; else raise InvalidInput."""
    if not isinstance(value, str) or len(value) > MOST_OF_A_NAME or not NAME.match(value):
        raise InvalidInput(
            field,
            value,
            "1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit; a domain may follow, %d in all"
            % MOST_OF_A_NAME,
            hint=input_hints.plain_name(),
        )
    return value


def short_name(name: str) -> str:
    """The host name without its domain."""
    return name.partition(".")[0]


def is_uuid(value: Any) -> bool:
    """Whether ``value`` is a uuid in its plain form."""
    return isinstance(value, str) and re.fullmatch(UUID, value, re.ASCII) is not None


def project_of(variables: Mapping[str, Any]) -> str:
    """Return the project of an instance in the inventory, from its variables; InvalidInput for what is no project."""
    project = variables.get("berth_project") or DEFAULT_PROJECT
    if not isinstance(project, str) or not re.match(PROJECT, project, re.ASCII):
        raise InvalidInput("berth_project", project, "a project name of a-z, A-Z, 0-9, '.', '_' and '-'")
    return project


def uuid_of(name: str, variables: Mapping[str, Any]) -> str:
    """Return the uuid of an instance in the inventory, from its name and variables (IDENTITY); InvalidInput for a bad one. A guest
    that was adopted and an instance that was renamed keep theirs, which the inventory says: no host may say it."""
    own = _said(variables)
    project, checked = project_of(variables), check_name(name)
    return own or instance_uuid(project, checked)


def _said(variables: Mapping[str, Any]) -> Optional[str]:
    found = None
    for field, rule in OWN_UUIDS.items():
        value = variables.get(field)
        if value in (None, ""):
            continue
        if not is_uuid(value) or found not in (None, value):
            raise InvalidInput(field, value, rule)
        found = str(value)
    return found


def instance_uuid(project: str, name: str) -> str:
    """The uuid of an instance: the same project and name give the same instance, on every controller."""
    return str(uuid.uuid5(NAMESPACE, "%s/%s" % (project, name)))


def own_name(record: Any) -> Dict[str, str]:
    """{own_name} of an instance whose uuid does not follow from its project and name, {} of any other."""
    return {} if record.uuid == instance_uuid(record.project_id, record.name) else {"own_name": record.name}


def group_uuid(project: str, name: str) -> str:
    """The uuid of a server group. A project name has no "/", so this is never the uuid of an instance."""
    return str(uuid.uuid5(NAMESPACE, "server-group/%s/%s" % (project, name)))
