# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances and volumes that a task names instead of giving their uuids, which follow from project and name."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ..module_utils.model.catalog_schema import VOLUMES
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.identity import check_name, instance_uuid, is_uuid, project_of
from ..module_utils.model.volumes import volume_uuid
from .host_reply import HostAction

Arguments = Dict[str, Any]


class NamedAction(HostAction):
    """An action whose task may give names. ``with_uuids``: what makes of its arguments those that the host gets."""

    with_uuids: Callable[[Arguments], Arguments]

    def on_host(self, task_vars):
        self._task.args = type(self).with_uuids(self._task.args)
        return super().on_host(task_vars)


def of_instance(args: Arguments) -> Arguments:
    """The arguments of a module about one instance. With state adopted the name is one to give. Raises InvalidInput."""
    if args.get("uuid") or args.get("state") == "adopted" or "name" not in args:
        return args
    return {**args, "uuid": _uuid(instance_uuid, args, args["name"])}


def of_instances(args: Arguments) -> Arguments:
    """The arguments of module instance_info. Raises InvalidInput."""
    return _of_names(instance_uuid, args)


def of_volume(args: Arguments) -> Arguments:
    """The arguments of module volume; also the instance beside which it is made may be a name. Raises InvalidInput."""
    volume, name = args.get("volume"), args.get("name")
    if isinstance(volume, dict):
        name = volume.get("name") if name is None else name
        if volume.get("name") not in (None, name) and not args.get("uuid"):
            raise InvalidInput("name", name, "volume.name, which is %s" % volume.get("name"))
        if volume.get("instance") and not is_uuid(volume["instance"]):
            volume = {**volume, "instance": _uuid(instance_uuid, args, volume["instance"])}
        args = {**args, "volume": volume}
    return args if args.get("uuid") or name is None else {**args, "uuid": _uuid(volume_uuid, args, name)}


def of_volumes(args: Arguments) -> Arguments:
    """The arguments of module volume_info. Raises InvalidInput."""
    return _of_names(volume_uuid, args)


def _of_names(uuid_of: Callable[[str, str], str], args: Arguments) -> Arguments:
    if args.get("names") is None:
        return args
    names = [args["names"]] if isinstance(args["names"], str) else args["names"]
    return {**args, "uuids": [*(args.get("uuids") or []), *(_uuid(uuid_of, args, name) for name in names)]}


def _uuid(uuid_of: Callable[[str, str], str], args: Arguments, name: Any) -> str:
    checked = VOLUMES.name.check(name, "name") if uuid_of is volume_uuid else check_name(name)
    return uuid_of(project_of({"berth_project": args.get("project_id")}), checked)
