# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is sent to build an instance: the arguments of module instance, with the seed."""

from __future__ import annotations

from ..module_utils.model.catalog import Catalog
from ..module_utils.model.network_config import network_config
from ..module_utils.placement.request import build_request
from .answers_of_hosts import replies
from .inventory_variables import CATALOG, INSTANCE, is_true, power_state, variables, who_locked

BUILT = "__berth_built"  # what build_on_hosts registers
TIMEOUT = 600  # seconds


def arguments(task_vars, name, spec, token, timeout=TIMEOUT):
    """``name`` is the inventory name. The seed is made here, so that no secret is in the plan or in a task's arguments.
    BerthError if the instance's variables are wrong."""
    values = variables(task_vars, name, (*CATALOG, *INSTANCE, "berth_locked", "berth_mend", "berth_shutdown_timeout"))
    _spec, seed = build_request({**values, "inventory_hostname": name}, Catalog.from_variables(values))
    mends, stays = is_true(values, "berth_mend"), bool(who_locked(values)) and not token
    if not values.get("berth_network_config"):
        seed["network_config"] = network_config(spec["networks"])  # with the addresses from pools
    wanted = {"state": "present", "uuid": spec["uuid"], "seed": seed, "timeout": timeout}
    if not stays:  # nobody changes an existing instance that the inventory locks
        wanted["spec"] = spec
    if mends and not stays:
        wanted["mend"] = True
    if power_state(values):
        wanted["power_state"] = power_state(values)
    if "berth_shutdown_timeout" in values:
        wanted["shutdown_timeout"] = values["berth_shutdown_timeout"]
    if token:
        wanted["token"] = token
    return wanted


def built_already(task_vars, token):
    """What build_on_hosts reported about the build of this claim in this run, or None."""
    return replies(task_vars, BUILT).get(token) if token else None
