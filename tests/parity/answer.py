# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer scenarios with the collection's own placement: JSON lines in, JSON lines out.

Per scenario a list with, per request, the chosen hosts in order; [] for no valid host. A scenario is {config, aggregates,
groups, hosts, requests} with Nova's option names and groups; this file only renames its parts to what the library reads.
Every line is answered: a request that is wrong gets [], and so do all of a scenario that is wrong; stderr says why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path
from nova_options import from_nova  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations  # noqa: E402


def document(number, request, groups):
    """A request of a scenario as a request document: group resolved, instances with ids."""
    count = int(request.get("num_instances", 1))
    uuids = request.get("instance_uuids") or ["request-%d-%d" % (number, each) for each in range(count)]
    return {
        **request,
        "project_id": request.get("project_id", "proj"),
        "instance_uuids": uuids,
        "num_instances": len(uuids),
        "group": groups[request["group"]] if request.get("group") else None,
    }


def answer(scenario):
    """[[host, ...] per request]."""
    options, hosts, aggregates = from_nova(scenario.get("config")), scenario["hosts"], scenario.get("aggregates", ())
    groups = {group["uuid"]: group for group in scenario.get("groups", ())}
    good = [
        good_document(number, request, groups, hosts, options) for number, request in enumerate(scenario["requests"])
    ]
    taken = [entry for entry in good if entry]
    placed = iter(select_destinations(hosts, taken, options, aggregates, check_policies=False).requests)
    return [next(placed).hosts if entry else [] for entry in good]


def good_document(number, request, groups, hosts, options):
    """The request's document, or None where placement does not take it: it must not fail its neighbours."""
    try:
        found = document(number, request, groups)
        select_destinations(hosts[:1], [found], options, check_policies=False)
    except (BerthError, KeyError, TypeError, ValueError, AttributeError) as error:
        print("request %d: %s: %s" % (number, type(error).__name__, error), file=sys.stderr)
        return None
    return found


def answer_line(line):
    requests = []
    try:
        scenario = json.loads(line)
        requests = scenario["requests"]
        return answer(scenario)
    except Exception as error:
        print("scenario: %s: %s" % (type(error).__name__, error), file=sys.stderr)
        return [[] for _request in requests or ()]


def main():
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer_line(line)), flush=True)


if __name__ == "__main__":
    main()
