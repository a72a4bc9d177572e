# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts remember of an instance, put together: who had it last, and whether it is gone."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor.notes import put_together

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def note(known=None, gone=None):
    host, *generation = known or (None,)
    return {"known": host and {"host": host, "host_uuid": host, "generation": generation}, "planned": [], "gone": gone}


@pytest.mark.parametrize(
    "told, last",
    [
        ({"kvm1": note(("kvm1", 1, 4))}, "kvm1"),
        ({"kvm1": note(gone=[1, 5]), "kvm2": note(("kvm1", 1, 4))}, None),
        ({"kvm1": note(("kvm2", 2, 0), gone=[3, 9])}, None),
        ({"kvm2": note(gone=[2, 6]), "kvm3": note(("kvm1", 1, 4))}, None),
        ({"kvm2": note(gone=[1, 4]), "kvm3": note(("kvm1", 1, 4))}, "kvm1"),
        ({"kvm1": note(gone=[1, 5]), "kvm3": note(("kvm2", 2, 0))}, "kvm2"),
    ],
    ids=[
        "it has it",
        "it removed it",
        "it went away, came back and was removed",
        "it went away and was removed there",
        "only what another host had of it, such as a claim, was removed",
        "what went was an earlier one",
    ],
)
def test_an_instance_is_gone_when_its_last_owner_removed_it(told, last):
    found = put_together(told).known
    assert (found and found.host) == last


@pytest.mark.parametrize("way", [["kvm1", "kvm2"], ["kvm1", "kvm2", "kvm1"], ["kvm1", "kvm2", "kvm3", "kvm2"]])
def test_after_any_way_through_the_fleet_a_delete_leaves_no_owner_behind(tmp_path, way):
    """Every host was told of the first owner by create, and each later one is known to its predecessor alone."""
    stores = {host: Store(str(tmp_path / host)) for host in ("kvm1", "kvm2", "kvm3")}

    def remembered():
        return put_together(
            {host: found[WEB] for host in stores if WEB in (found := whereabouts.recall(stores[host], [WEB]))}
        )

    for store in stores.values():
        whereabouts.remember(store, {"known": {way[0]: {WEB: [1, 3]}}})
    for epoch, (source, destination) in enumerate(zip(way, way[1:]), start=2):
        whereabouts.remember(stores[source], {"known": {destination: {WEB: [epoch, 0]}}})
    latest = remembered()
    assert latest.known.host == way[-1]
    whereabouts.removed(stores[way[-1]], WEB, [len(way), 5])
    assert remembered().known is None, "the run ended before it told the others"
    for store in stores.values():
        whereabouts.remember(store, {"gone": {latest.known.host_uuid: {WEB: list(latest.latest)}}})
    assert remembered().known is None
    del stores[way[-1]]
    assert remembered().known is None, "nor while the host that had it last is silent"
