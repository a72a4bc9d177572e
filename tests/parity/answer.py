# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer scenarios with the collection's own placement: JSON lines in, JSON lines out.

Per scenario a list with, per request, the chosen hosts in order; [] for no valid host. A scenario is {config, aggregates,
groups, hosts, requests} with Nova's option names and groups; this file only renames its parts to what the library reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import from_nova  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations  # noqa: E402


def documents(scenario):
    """The scenario's requests as request documents: groups resolved, instances with ids."""
    groups = {one["uuid"]: one for one in scenario.get("groups", ())}
    for number, request in enumerate(scenario["requests"]):
        count = int(request.get("num_instances", 1))
        document = dict(request, project_id=request.get("project_id", "proj"))
        document["instance_uuids"] = request.get("instance_uuids") or [
            "request-%d-%d" % (number, each) for each in range(count)
        ]
        document["num_instances"] = len(document["instance_uuids"])
        document["group"] = groups[request["group"]] if request.get("group") else None
        yield document


def answer(scenario):
    """[[host, ...] per request]."""
    options, hosts, aggregates = from_nova(scenario.get("config")), scenario["hosts"], scenario.get("aggregates", ())
    requests = list(documents(scenario))
    good = [is_good(one, hosts, options) for one in requests]
    taken = [one for one, is_taken in zip(requests, good) if is_taken]
    placed = iter(select_destinations(hosts, taken, options, aggregates, check_policies=False).requests)
    return [next(placed).hosts if is_taken else [] for is_taken in good]


def is_good(request, hosts, options):
    """Whether the request is one that placement takes at all; a wrong one is refused without failing its neighbours."""
    try:
        select_destinations(hosts[:1], [request], options, check_policies=False)
    except BerthError as error:
        print("%s: %s" % (error.code, error), file=sys.stderr)
        return False
    return True


def main():
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
