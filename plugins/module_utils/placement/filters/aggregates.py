# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that keep hosts for some projects, flavors, images or zones, mostly by the metadata of aggregates."""

from __future__ import annotations

from ...model.catalog import DEFAULT_ZONE
from ...model.host_state import merged_metadata, values_of
from ..base import PASS, Filter, fail
from . import capabilities


class AggregateImagePropertiesIsolation(Filter):
    """A host passes when the image's properties agree with its aggregates' metadata of the same keys.

    Only properties that Nova knows count; one that the image does not set agrees with anything. A metadata value is a
    comma list.
    Options: aggregate_image_properties_isolation_namespace (none) and aggregate_image_properties_isolation_separator
    ("."): only keys that begin with both. Aggregate metadata: any image property.
    Source: nova.scheduler.filters.aggregate_image_properties_isolation.AggregateImagePropertiesIsolation.
    """

    run_filter_once_per_request = True
    run_on_rebuild = True

    def check(self, host_state, spec):
        namespace = self.options["aggregate_image_properties_isolation_namespace"]
        prefix = namespace + self.options["aggregate_image_properties_isolation_separator"] if namespace else ""
        props = spec.image_props
        for key, allowed in merged_metadata(host_state.aggregates).items():
            have = props.get(key) if key.startswith(prefix) else None
            if have and str(have) not in allowed:
                return fail(
                    "%s=%s is not one of %s" % (key, have, ", ".join(sorted(allowed))),
                    property=key,
                    allowed=sorted(allowed),
                )
        return PASS


SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(Filter):
    """A host passes when its aggregates' metadata has what the flavor's extra specs ask for.

    Extra specs without a scope count, and those that begin with ``aggregate_instance_extra_specs:``. The key must exist,
    and one of its values (a comma list) must match, with the operators of ComputeCapabilitiesFilter.
    Aggregate metadata: any key.
    Source: nova.scheduler.filters.aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return None if spec.flavor.extra_specs else ()

    def check(self, host_state, spec):
        metadata = merged_metadata(host_state.aggregates)
        for key, wanted in spec.flavor.extra_specs.items():
            scope, colon, rest = key.partition(":")
            if colon and scope != SCOPE:
                continue
            key = rest if colon else key
            values = metadata.get(key)
            if not values:
                return fail("no aggregate has %s" % key, key=key, wanted=wanted)
            if not any(capabilities.match(value, wanted) for value in values):
                return fail(
                    "%s is %s, wanted %s" % (key, ", ".join(sorted(values)), wanted),
                    key=key,
                    wanted=wanted,
                    have=sorted(values),
                )
        return PASS


class AggregateMultiTenancyIsolation(Filter):
    """A host whose aggregates name tenants passes only for these projects; one whose aggregates name none, for all.

    Aggregate metadata: every key that begins with filter_tenant_id, a comma list of projects.
    Source: nova.scheduler.filters.aggregate_multitenancy_isolation.AggregateMultiTenancyIsolation.
    """

    run_filter_once_per_request = True

    def check(self, host_state, spec):
        tenants = set()
        for key, values in merged_metadata(host_state.aggregates).items():
            if key.startswith("filter_tenant_id"):
                tenants |= values
        if not tenants or spec.project_id in tenants:
            return PASS
        return fail(
            "is for projects %s" % ", ".join(sorted(tenants)), tenants=sorted(tenants), project_id=spec.project_id
        )


class AggregateTypeAffinityFilter(Filter):
    """A host whose aggregates name flavors passes only for these; one whose aggregates name none, for all.

    Aggregate metadata: instance_type, a comma list of flavor names.
    Source: nova.scheduler.filters.type_filter.AggregateTypeAffinityFilter.
    """

    run_filter_once_per_request = True

    def check(self, host_state, spec):
        values = values_of(host_state.aggregates, "instance_type")
        named = sorted({part.strip() for value in values for part in value.split(",")})
        if not values or spec.flavor.name in named:
            return PASS
        return fail("is for flavors %s" % ", ".join(named), flavors=named)


class AvailabilityZoneFilter(Filter):
    """A host passes when it is in the availability zone that was asked for.

    A host's zones are the metadata of its aggregates; one without is in zone "nova". A request without a zone passes.
    Aggregate metadata: availability_zone.
    Source: nova.scheduler.filters.availability_zone_filter.AvailabilityZoneFilter, removed in Nova 28
    (map_az_to_placement_aggregate took its place).
    """

    run_filter_once_per_request = True

    def check(self, host_state, spec):
        zone = spec.availability_zone
        zones = sorted(merged_metadata(host_state.aggregates).get("availability_zone", {DEFAULT_ZONE}))
        return (
            PASS
            if not zone or zone in zones
            else fail("is in zone %s, asked for %s" % (", ".join(zones), zone), zones=zones, wanted=zone)
        )


class IsolatedHostsFilter(Filter):
    """Keeps isolated images on isolated hosts, and by default everything else off them.

    With restrict_isolated_hosts_to_isolated_images a host passes when host and image are both isolated or both not;
    without it, an isolated image needs an isolated host. Where no images are named, isolated hosts fail with the
    restriction, and all pass without it. An image is known by its id, else by its name.
    Options: isolated_hosts ([]), isolated_images ([]), restrict_isolated_hosts_to_isolated_images (true).
    Source: nova.scheduler.filters.isolated_hosts_filter.IsolatedHostsFilter.
    """

    run_filter_once_per_request = True
    run_on_rebuild = True

    def check(self, host_state, spec):
        images = self.options["isolated_images"]
        restrict = self.options["restrict_isolated_hosts_to_isolated_images"]
        host_isolated = host_state.host in self.options["isolated_hosts"]
        if not images:
            return fail("is isolated", isolated_host=True) if restrict and host_isolated else PASS
        image_isolated = spec.image is not None and spec.image.id in images
        if image_isolated == host_isolated if restrict else (not image_isolated or host_isolated):
            return PASS
        reason = (
            "the image is isolated, the host is not" if image_isolated else "the host is isolated, the image is not"
        )
        return fail(reason, isolated_host=host_isolated, isolated_image=image_isolated)
