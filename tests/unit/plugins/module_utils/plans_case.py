# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small fleets for the tests of plans: names stand for uuids, sizes are GiB of memory."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import Fleet, Instance


def group(name, policy="anti-affinity"):
    return {"uuid": name, "name": name, "policy": policy, "rules": {}}


def instance(name, host, gib=1, *, group=None, fixed=None, vcpus=1, how="live", **request):
    flavor = {"name": "m%d" % gib, "vcpus": vcpus, "memory_mb": gib * 1024, "root_gb": 1, "extra_specs": {}}
    asked = {"uuid": name, "name": name, "flavor": flavor, "image": {}, "group": group, "instance_uuids": [name]}
    return Instance(name, name, host, {**asked, **request}, fixed, how)


def fleet(sizes, instances, aggregates=(), options=None, **host):
    """``sizes``: host -> GiB of memory for instances; ``host``: what else its document has."""
    documents = {}
    for name, gib in sizes.items():
        here = [each for each in instances if each.host == name]
        documents[name] = {
            "host": name, "uuid": "uuid-" + name, "memory_mb": gib * 1024, "reserved_host_memory_mb": 0, "vcpus": 16,
            "cpu_allocation_ratio": 4.0, "local_gb": 1000, "vcpus_used": sum(each.request["flavor"]["vcpus"] for each in here),
            "memory_mb_used": sum(each.request["flavor"]["memory_mb"] for each in here), "local_gb_used": len(here),
            "instances": [told(each) for each in here], **host,
        }  # fmt: skip
    return Fleet(documents, {each.uuid: each for each in instances}, options or {}, aggregates)


def told(each):
    """An instance as its host tells of it."""
    flavor = each.request["flavor"]
    return {
        "uuid": each.uuid, "name": each.name, "role": "OWN", "flavor": flavor, "vcpus": flavor["vcpus"], "group": each.group,
        "memory_mb": flavor["memory_mb"], "disk_gb": 1, "foreign": False,
    }  # fmt: skip
