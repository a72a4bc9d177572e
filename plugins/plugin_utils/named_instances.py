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


# Module -> what makes of its arguments those that the host gets. Module volume has an action of its own.
WITH_UUIDS: Dict[str, Callable[[Arguments], Arguments]] = {
    "instance": of_instance,
    "instance_backup": of_instance,
    "instance_copy": of_instance,
    "instance_info": of_instances,
    "volume_info": of_volumes,
}


class NamedAction(HostAction):
    """An action whose task may give names, if it is about instances or volumes."""

    def on_host(self, task_vars):
        name = self._task.action.rpartition(".")[2]
        if name in WITH_UUIDS:
            self._task.args = WITH_UUIDS[name](self._task.args)
        return super().on_host(task_vars)
