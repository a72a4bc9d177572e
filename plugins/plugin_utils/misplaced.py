# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables where nothing reads them, a mistake of the user: settings of KVM hosts on an instance, those of an instance on a
KVM host, and what instances are like in the vars of a play or a role. A flavor on a KVM host is in selection.py.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Tuple

from ansible.parsing.vault import EncryptedString

from ..module_utils.model import fleet_hints, input_hints
from ..module_utils.model.errors import BerthError, InvalidInput, joined, shortened
from .inventory_variables import CATALOG, INSTANCE
from .screen import warn

# Those of the role kvm_host, in addition to the settings that begin with berth_host_.
ROLE = (
    "berth_host_packages",
    "berth_host_accept_state_directory",
    "berth_host_remove_unused_images",
    "berth_host_forget_failed_builds",
    "berth_host_certificates",
    "berth_ca_directory",
    "berth_host_certificate_days",
    "berth_host_certificate_names",
    "berth_host_libvirt_service",
)
# Their names before 1.0: old -> new.
RENAMED = {"kvm_host_" + name.replace("berth_", "", 1).replace("host_", "", 1): name for name in ROLE}
MOST_NAMED = 3
# Those that a run reads for each instance, and not for itself, too.
OF_INVENTORY = {*INSTANCE, *CATALOG, "berth_locked", "berth_mend"} - {
    "berth_aggregates",
    "berth_project",
    "berth_target_host",
    "berth_volumes_defined",
}


# How it is told, and the hint that says where the variable counts.
ON_INSTANCE = (
    "a setting of KVM hosts and does nothing on an instance",
    functools.partial(input_hints.set_where_it_counts, owners="KVM hosts"),
)
ON_KVM_HOST = (
    "a variable of instances and does nothing on a KVM host",
    functools.partial(input_hints.set_where_it_counts, owners="instances"),
)
CATALOG_ON_KVM_HOST = ("a part of the catalog and does nothing on a KVM host", fleet_hints.set_for_all)


def warn_of_misplaced(
    names: Iterable[str],
    found_on: Mapping[str, Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    said: Tuple[str, Callable[[str], str]],
) -> None:
    """``names``: variables that count only on the ``others``, localhost among them; ``found_on``: host -> its variables. A value
    that one of the others has too is a variable of group all. ``said``: as ON_INSTANCE."""
    found: Dict[str, List[str]] = {}
    for name in names:
        for host, own in found_on.items():
            if name in own and not any(name in other and other[name] == own[name] for other in others):
                found.setdefault(name, []).append(host)
    for name, hosts in sorted(found.items()):
        warn("%s: %s is %s. %s" % (listed(hosts), name, said[0], said[1](name)))


def check_vars_of_play(task_vars: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise InvalidInput for what each instance has of its own, and one process reads for all of them, if vars of the play, of
    a role or of the task have it: the run would go on as if they were not there. ``own``: the host's variables."""

    def is_own(name: str) -> bool:
        # of a part that Ansible Vault encrypted only the name is looked at
        return name in own and (isinstance(own[name], EncryptedString) or own[name] == task_vars[name])

    errors: List[BerthError] = [
        InvalidInput(name, "in vars of a play, a role or a task", "in the inventory, or given with -e")
        for name in sorted(OF_INVENTORY)
        if name in task_vars and not is_own(name)
    ]
    if errors:
        raise joined(errors)


def listed(names: List[str]) -> str:
    return shortened(names, MOST_NAMED)
