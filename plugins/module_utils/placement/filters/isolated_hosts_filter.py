# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IsolatedHostsFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class IsolatedHostsFilter(Filter):
    """Keeps isolated images on isolated hosts, and by default everything else off them.

    With restrict_isolated_hosts_to_isolated_images a host passes when host and image are both isolated or both not;
    without it, an isolated image needs an isolated host. Where no images are named, isolated hosts fail with the
    restriction, and all pass without it. An image is known by its id, else by its name.
    Options: isolated_hosts ([]), isolated_images ([]), restrict_isolated_hosts_to_isolated_images (true).
    Aggregate metadata: none. Runs once per request, and on rebuild.
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
