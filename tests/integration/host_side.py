# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's host side on one lab host without Ansible: calls of driver.py, and a look at what is left there."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path

from client import REPOSITORY, run

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

PLACE = "/opt/berth-test"
INSIDE = "ansible_collections/berth/kvm/plugins/module_utils"
WAITING = "/run/berth-driver-waits"

# Everything on a host that belongs to instances: records, permits, disks, definitions, logs, running guests.
TRACES = """
find /var/lib/berth/instances /run/berth/permits /var/lib/libvirt/berth/instances -mindepth 1 2>/dev/null
find /var/lib/libvirt/berth/images -name '*.tmp' -o -name '*.lock'
ls /var/log/libvirt/qemu/*-console.log* 2>/dev/null
virsh -q list --all --uuid
pgrep -fa '[q]emu-system.*guest=' | sed 's/.*guest=\\([^,]*\\).*/guest \\1/'
true
"""


def request(name, image, flavor=None, networks=(), group=None, **changes):
    """(spec, seed) of an instance of project default, as the catalog would make them."""
    uuid = instance_uuid("default", name)
    sizes = {"name": "tiny", "vcpus": 1, "memory_mb": 96, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}
    spec = {
        "schema": 1,
        "uuid": uuid,
        "name": name,
        "project_id": "default",
        "user_id": None,
        "flavor": {**sizes, **(flavor or {})},
        "image": {"name": "guest", "id": "guest", "min_disk": 0, "min_ram": 0, "properties": {}, **image},
        "networks": list(networks),
        "group": group,
        "availability_zone": None,
        "scheduler_hints": {},
        "pool": "berth",
        "num_instances": 1,
        "instance_uuids": [uuid],
        **changes,
    }
    return spec, {"hostname": name, "ssh_keys": [], "user_data": None, "network_config": None}


class HostSide:
    """One host of the lab with the collection's module_utils and the driver on it."""

    def __init__(self, lab, host):
        self.lab, self.host = lab, host
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in sorted((REPOSITORY / "plugins" / "module_utils").rglob("*.py")):
                tar.add(path, "%s/%s" % (INSIDE, path.relative_to(REPOSITORY / "plugins" / "module_utils")))
            tar.add(Path(__file__).parent / "driver.py", "driver.py")
        unpack = "rm -rf %s; mkdir -p %s; base64 -d | tar -xz -C %s" % (PLACE, PLACE, PLACE)
        argv = [REPOSITORY / "lab" / "lab", "--name", lab.name, "exec", host, "sh", "-c", unpack]
        run(argv, check=True, stdin=base64.b64encode(packed.getvalue()).decode())

    def _argv(self, call, arguments):
        given = json.dumps({"call": call, **arguments})
        return ["env", "PYTHONPATH=" + PLACE, "/usr/bin/python3", PLACE + "/driver.py", given]

    def call(self, call, **arguments):
        """The driver's answer {result | error, steps}; None where it ended itself at the step."""
        done = self.lab.exec(self.host, *self._argv(call, arguments), check=False, timeout=120)
        if done.rc == 9:
            return None
        assert done.rc == 0, done.output
        return json.loads(done.stdout.splitlines()[-1])

    def begin(self, call, **arguments):
        """The same in the background; wait_for_step() says when it waits at its step."""
        self.lab.sh(self.host, "rm -f " + WAITING)
        words = " ".join("'%s'" % word.replace("'", "'\\''") for word in self._argv(call, arguments))
        self.lab.sh(self.host, "setsid %s >/run/berth-driver.log 2>&1 </dev/null &" % words)

    def wait_for_step(self):
        script = "i=0; while [ ! -s %s ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done; cat %s" % (WAITING, WAITING)
        return self.lab.sh(self.host, script, timeout=60).stdout

    def traces(self):
        return sorted(self.lab.sh(self.host, TRACES).stdout.splitlines())

    def root_inode(self, uuid):
        path = "/var/lib/libvirt/berth/instances/%s/root.qcow2" % uuid
        return self.lab.sh(self.host, "stat -c %%i %s 2>/dev/null; true" % path).stdout.strip()

    def record(self, uuid):
        text = self.lab.sh(self.host, "cat /var/lib/berth/instances/%s/record.json 2>/dev/null; true" % uuid).stdout
        return json.loads(text) if text else None
