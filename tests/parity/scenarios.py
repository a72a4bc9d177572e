# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random scenarios of combinations that are rare elsewhere, in the format that answer.py reads.

A profile is a list of habits; each habit is a function that adds its words to hosts, configuration or requests
(scenario_hosts.py, scenario_options.py, scenario_requests.py). The same seed, size and profile always give the same scenario.
Usage levels are drawn so that most requests find a host.
"""

from __future__ import annotations

import json
import random
import uuid

from scenario_hosts import broken_services, capabilities, cells, devices, metrics, odd_numbers, plain_host, units
from scenario_options import all_filters, isolation, limits, some_filters, weights
from scenario_requests import (
    cards,
    classes,
    few_words,
    groups,
    needs,
    operators,
    pinned,
    plain_request,
    queries,
    rebuilds,
    targets,
    zero_flavors,
    zones_and_projects,
)


class Draw(random.Random):
    def maybe(self, share):
        return self.random() < share

    def some(self, items, most):
        items = list(items)
        return self.sample(items, self.randint(0, min(most, len(items))))

    def uuid(self):
        return str(uuid.UUID(int=self.getrandbits(128), version=4))


BASE = (some_filters, broken_services)
PROFILES = {
    "all": (
        all_filters, capabilities, metrics, isolation, limits, weights, cells, devices, groups,
        zones_and_projects, operators, pinned, cards, queries, targets, few_words,
    ),
    "any": (
        *BASE, capabilities, metrics, isolation, limits, weights, cells, devices, units, groups, zones_and_projects,
        operators, pinned, cards, queries, targets, classes, needs, few_words,
    ),
    "words": (*BASE, capabilities, operators, queries),
    "weights": (*BASE, capabilities, metrics, limits, weights, groups),
    "isolation": (*BASE, isolation, weights, zones_and_projects, targets),
    "odd": (*BASE, odd_numbers, zero_flavors, targets, groups, rebuilds, weights),
    "needs": (*BASE, needs, cells, pinned, few_words),
    "units": (*BASE, units, classes, groups, targets),
    "cells": (all_filters, cells, pinned, groups),
    "devices": (all_filters, cells, devices, pinned, cards),
    "bare": (*BASE, devices, cards, targets, cells, pinned),
    "crowd": (*BASE, limits, groups, weights),
}  # fmt: skip


def generate(seed, hosts, requests, profile):
    """A scenario of a profile; a share of the hosts are twins, so that ties are frequent."""
    draw = Draw("%s/%s/%s/%s" % (seed, hosts, requests, profile))
    if profile == "odd":
        hosts = draw.choice((0, 1, 2, hosts, hosts, hosts))
    elif profile in ("all", "any"):
        hosts *= 3  # so many rules leave few of them
    scenario = {
        "profile": profile,
        "config": {"filter_scheduler": {}, "scheduler": {}},
        "aggregates": [],
        "groups": [],
        "hosts": [plain_host(draw, number) for number in range(hosts)],
        "requests": [plain_request(draw, number) for number in range(requests)],
    }
    for habit in PROFILES[profile]:
        habit(draw, scenario)
    for number in range(1, hosts):
        if draw.maybe(0.3):
            own = scenario["hosts"][number]
            twin = json.loads(json.dumps(scenario["hosts"][draw.randrange(number)]))
            twin.update({name: own[name] for name in ("host", "host_ip", "instances")})
            twin.pop("node", None)
            scenario["hosts"][number] = twin
    return scenario
