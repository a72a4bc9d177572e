# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions about requests: what is asked of Placement, by flavor and image and by Nova's request filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nova.conf
import translate
from ledger import CannotAsk, Ledger, ask
from nova import objects
from nova.scheduler import request_filter
from nova.scheduler import utils as scheduler_utils

from ansible_collections.berth.kvm.plugins.module_utils.placement import prefilters
from ansible_collections.berth.kvm.plugins.module_utils.placement.requested import requested

# Those of Nova's request filters that ask for traits, by the option that turns them on.
TRAITS = {
    "accelerators_filter": None,
    "ephemeral_encryption_filter": None,
    "packed_virtqueue_filter": None,
    "require_image_type_support": "query_placement_for_image_type_support",
    "tpm_secret_security_filter": None,
    "transform_image_metadata": "image_metadata_prefilter",
    "virtio_sound_filter": None,
}
AGGREGATES = ("require_tenant_aggregate", "map_az_to_placement_aggregate")


def install(ledger: Ledger) -> None:
    ask(ledger, scheduler_utils.ResourceRequest, "from_request_spec", _requested, _as_groups)
    for name in TRAITS:
        original = getattr(request_filter, name)
        ask(ledger, request_filter, name, _traits(getattr(prefilters, name)), _as_traits)
        # Nova runs them out of a list that it made when it was imported.
        replaced = getattr(request_filter, name)
        request_filter.ALL_REQUEST_FILTERS[:] = [
            replaced if filter_ is original else filter_ for filter_ in request_filter.ALL_REQUEST_FILTERS
        ]
    for name in AGGREGATES:
        ask(ledger, request_filter, name, _aggregates(name), _as_aggregates)


def _aggregates(name: str) -> Callable:
    """A question about a request filter that looks for aggregates; the test says which of them the database finds."""

    def ours(_context: Any, spec: Any) -> Callable:
        lookup = vars(objects.AggregateList).get("get_by_metadata")
        found = getattr(lookup, "return_value", None)
        there = [translate.aggregate(entry) for entry in found] if isinstance(found, list) else []
        if name == "map_az_to_placement_aggregate":  # what the database finds has the key and the value
            for entry in there:
                entry.metadata["availability_zone"] = spec.availability_zone
        asked, told = translate.request(spec), translate.options(nova.conf.CONF)
        before = _as_aggregates(None, None, spec)

        def answer() -> set:
            query = prefilters.Query(asked, told)
            getattr(prefilters, name)(query, told, there)
            return before | {frozenset(wanted) for _rule, wanted, _what in query.member_of}

        return answer

    return ours


def _as_aggregates(_found: Any, _context: Any, spec: Any) -> set:
    destination = translate.get(spec, "requested_destination")
    return {frozenset(entry.split(",")) for entry in translate.get(destination, "aggregates") or ()}


def _requested(_cls: Any, spec: Any, pin: bool) -> Callable:
    if translate.get(spec, "requested_resources"):
        raise CannotAsk("ports and devices ask for resources of their own in it, of providers below the host")
    asked = translate.request(spec)
    return lambda: _groups(requested(asked, pin))


def _groups(found: Any) -> dict:
    return {
        suffix or "": (dict(group.resources), set(group.required), set(group.forbidden))
        for suffix, group in found.groups.items()
    }


def _as_groups(found: Any, *_given: Any) -> dict:
    groups = {
        ident or "": (dict(group.resources), set(group.required_traits), set(group.forbidden_traits))
        for ident, group in found._rg_by_id.items()
    }
    return {ident: parts for ident, parts in groups.items() if any(parts)}


def _traits(rule: Callable) -> Callable:
    def ours(_context: Any, spec: Any) -> Callable:
        asked, told = translate.request(spec), translate.options(nova.conf.CONF)

        def answer() -> set:
            query = prefilters.Query(asked, told)
            rule(query, told, ())
            return {trait for trait, _rule in query.root_required}

        return answer

    return ours


def _as_traits(_found: Any, _context: Any, spec: Any) -> set:
    return set(spec.root_required or ())
