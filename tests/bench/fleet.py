# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook costs the controller of a large fleet, against `ansible -m ping` of the same hosts in the same run.

The hosts are simulated, see simulated_fleet.py; it needs gcc. CPU is user and system time of all processes but the hosts' own,
memory is that of the largest process. Writes .bench/fleet.json: [{name, value, unit, against, ratio, memory_mib, runs, bytes}],
where ratio is value / against, both in CPU seconds; ``runs`` is how many modules were run, ``bytes`` what each was sent at most.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path
import etcd_process  # noqa: E402
import registry  # noqa: E402
import simulated_fleet  # noqa: E402

from ansible_collections.berth.kvm.plugins.plugin_utils import registry_access  # noqa: E402

WANTED = 20
CREATE = ["ansible-playbook", "berth.kvm.create", "--limit", "new000"]
OVER_REGISTRY = "create of 1 over a registry"
PLAYBOOKS = {
    "ping": ["ansible", "kvm_hosts", "-m", "ansible.builtin.ping"],
    "host_facts": ["ansible-playbook", "berth.kvm.host_facts"],
    "create of 20 that are there": ["ansible-playbook", "berth.kvm.create", "-e", "berth_instances=old"],
    "create of 1": CREATE,
    OVER_REGISTRY: CREATE,
    "create of 20": ["ansible-playbook", "berth.kvm.create", "-e", "berth_instances=new"],
}
BUILDING = {"create of 1", OVER_REGISTRY, "create of 20"}


@contextlib.contextmanager
def registry_of(room, hosts, instances):
    """A registry that knows the hosts. Variables of a run over it."""
    with etcd_process.running_with_tls(room, "--quota-backend-bytes=4294967296") as there:
        registry.fill(registry_access.engine(there.members, str(room / "ca"), user=None), hosts, instances)
        yield {"berth_registry": "etcd://%s:%d" % there.members[0], "berth_ca_directory": str(room / "ca")}


def run(name, room, inventory, forks, variables=None):
    """{cpu (s), memory_mib, runs {module: count}, bytes {module: most}}"""
    simulated_fleet.reset(room)
    program, *arguments = PLAYBOOKS[name]
    arguments += ["-e", json.dumps(variables)] if variables else []
    paths = {
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections"),
        "ANSIBLE_HOME": str(room / "ansible"),
        "ANSIBLE_INJECT_FACT_VARS": "false",  # as docs/scaling.md says of large fleets
    }
    with open(room / "output", "wb") as output:
        process = subprocess.Popen(
            [Path(sys.executable).parent / program, "-i", inventory, "--forks", str(forks), *arguments],
            env={**os.environ, **paths}, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    runs, most, hosts_own = collections.Counter(), collections.Counter(), 0
    for line in (room / "log").read_text().splitlines():
        module, sent, microseconds = line.split()
        runs[module] += 1
        most[module] = max(most[module], int(sent))
        hosts_own += int(microseconds)
    if process.returncode or ("build_instances" in runs) != (name in BUILDING):
        sys.exit(
            "%s ended with %d after %s:\n%s" % (name, process.returncode, dict(runs), (room / "output").read_text())
        )
    cpu = usage.ru_utime + usage.ru_stime - hosts_own / 1e6
    return {"cpu": cpu, "memory_mib": usage.ru_maxrss >> 10, "runs": dict(runs), "bytes": dict(most)}


def measure(hosts, instances, forks, names):
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        inventory = simulated_fleet.make(room, hosts, instances, WANTED)
        base = run("ping", room, inventory, forks)
        for name in names:
            with (
                registry_of(room, hosts, instances) if name == OVER_REGISTRY else contextlib.nullcontext() as variables
            ):
                found = run(name, room, inventory, forks, variables)
            yield {
                "name": "%s, %d hosts with %d instances" % (name, hosts, instances),
                "value": round(found["cpu"], 2),
                "unit": "CPU s",
                "against": round(base["cpu"], 2),
                "ratio": round(found["cpu"] / base["cpu"], 2),
                "memory_mib": found["memory_mib"],
                "runs": found["runs"],
                "bytes": found["bytes"],
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[30, 100])
    parser.add_argument("--instances", type=int, default=20, help="on each host")
    parser.add_argument("--forks", type=int, default=50)
    parser.add_argument("--only", nargs="+", choices=list(PLAYBOOKS), default=list(PLAYBOOKS)[1:])
    options = parser.parse_args()
    if not etcd_process.IS_HERE:
        options.only = [name for name in options.only if name != OVER_REGISTRY]
    rows = []
    for hosts in options.hosts:
        for row in measure(hosts, options.instances, options.forks, options.only):
            rows.append(row)
            print(
                "%(name)s: %(value)s CPU s, ping %(against)s, ratio %(ratio)s; %(memory_mib)d MiB" % row,
                row["runs"],
                row["bytes"],
            )
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "fleet.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
