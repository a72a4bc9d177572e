# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which fixed address and MAC address in the inventory."""

from __future__ import annotations

from ansible.errors import AnsibleError

from ..module_utils.conductor import addressing
from ..module_utils.model import catalog_schema
from ..module_utils.model.errors import BerthError


def fixed_addresses(names, catalogs):
    """{address as model/nics.py writes it: {name: name}} of the instances ``names``."""
    owners = {}
    for name in names:
        try:
            value = catalogs.value(name, "berth_networks") or []
            own = catalog_schema.INSTANCE["berth_networks"].check(value, "berth_networks")
            fixed = addressing.fixed(own, catalogs.of(name).networks, name)
        except (BerthError, AnsibleError):
            continue  # an instance that is not selected here; a run that selects it reports the error
        for address, owner in fixed.items():
            owners.setdefault(address, owner)
    return owners
