# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that a task names instead of giving their uuids, which follow from project and name."""

from __future__ import annotations

from typing import Any, Dict

from ..module_utils.model.identity import check_name, instance_uuid, project_of


def with_uuid(args: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of module instance. With state adopted the name is one to give. Raises InvalidInput."""
    if args.get("uuid") or args.get("state") == "adopted" or "name" not in args:
        return args
    return {**args, "uuid": _uuid_of(args["name"], args)}


def with_uuids(args: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of module instance_info. Raises InvalidInput."""
    names = args.get("names") or []
    names = [names] if isinstance(names, str) else names
    return {**args, "uuids": [*(args.get("uuids") or []), *(_uuid_of(name, args) for name in names)]}


def _uuid_of(name: Any, args: Dict[str, Any]) -> str:
    return instance_uuid(project_of({"berth_project": args.get("project_id")}), check_name(name))
