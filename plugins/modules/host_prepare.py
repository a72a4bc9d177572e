#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_prepare
version_added: 0.1.0
short_description: Make a plain KVM host ready to hold instances
description:
  - Writes the settings of the host to C(/etc/berth/host.json), pins the UUID that libvirt gives the host, makes the
    directories and the storage pool for instances, and installs the boot gate, a hook of libvirt that lets an instance
    start only where its record says so.
  - Refuses a host whose libvirt does not confine its guests with SELinux or AppArmor, unless the settings allow it.
  - Role P(berth.kvm.kvm_host#role) calls it, and restarts libvirt where that is needed.
options:
  settings:
    description:
      - The settings of the host by name, such as C(cpu_allocation_ratio) or C(reserved_host_memory_mb).
      - Settings that are left out have their defaults.
    type: dict
    default: {}
  pool_path:
    description: The directory for the storage pool, if the pool does not exist yet.
    type: path
    default: /var/lib/libvirt/berth
  accept_state_directory:
    description: Whether to accept C(/var/lib/berth) although it is not the directory that the host was prepared with, or is an
      older copy of it. Without this option such a host is refused, unless it has no guest, no disk of an instance and
      no volume.
    type: bool
    default: false
    version_added: 1.0.0
  remove_unused_images:
    description:
      - Remove the cached images that nothing on the host needs. A host that is prepared for the first time has none.
      - A storage pool keeps all of its images while it has disks of an instance that this host has no record of.
    type: bool
    default: false
  forget_failed_builds:
    description: Forget that builds failed on the host, which makes placement prefer other hosts. Use it after the host was repaired.
    type: bool
    default: false
    version_added: 1.0.0
extends_documentation_fragment:
  - berth.kvm.host
attributes:
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Prepare the host
  berth.kvm.host_prepare:
    settings:
      reserved_host_memory_mb: 2048
      cpu_allocation_ratio: 2.0
"""

RETURN = r"""
parts:
  description: What was not as it should be and was changed, of C(uuid) (that libvirt keeps its host uuid), C(state),
    C(settings), C(pool), C(gate), C(listening) (on which addresses libvirt listens for other hosts) and C(directories)
    (that QEMU may pass through those of the pool).
  returned: success
  type: list
  elements: str
  sample: [state, settings, pool, gate]
host_uuid:
  description: The pinned UUID of the host.
  returned: success
  type: str
  sample: 4c4c4544-0042-3510-8052-b4c04f4a3232
listener:
  description: The service of libvirt that listens for other hosts, V(libvirtd), or V(virtproxyd) if each driver has a daemon.
  returned: success
  type: str
  sample: libvirtd
restart:
  description: The services that run without the boot gate, or listen as before, until they are restarted. Guests live through that.
  returned: success
  type: list
  elements: str
  sample: [libvirtd]
removed_images:
  description: The checksums of the images that were removed, in check mode of those that would be.
  returned: success
  type: list
  elements: str
  sample: []
forgotten_failed_builds:
  description: How many failed builds were forgotten, in check mode how many would be.
  returned: success
  type: int
  sample: 0
"""

import json

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.connection import connect
from ..module_utils.compute.disk import unused_images
from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.host.preparation import prepare
from ..module_utils.compute.host.settings import load
from ..module_utils.compute.record import counters
from ..module_utils.compute.record.store import Store

SPEC = {
    "settings": {"type": "dict", "default": {}},
    "pool_path": {"type": "path", "default": "/var/lib/libvirt/berth"},
    "accept_state_directory": {"type": "bool", "default": False},
    "remove_unused_images": {"type": "bool", "default": False},
    "forget_failed_builds": {"type": "bool", "default": False},
}


def forget_failed_builds(store, dry):
    """Return how many failed builds counted until now."""
    number = counters.count_failed_builds(store.state_dir)
    if not dry:
        counters.forget_failed_builds(store.state_dir)
    return number


def shown(done, removed, forgotten):
    """The settings, and beside them what else was not as it should be, such as an old boot gate."""
    more = {"before": {}, "after": {}}
    if removed:
        more = {"before": {"unused_images": removed}, "after": {"unused_images": []}}
    outdated = [part for part in done["changed"] if part != "settings"]
    if outdated:
        more["before"]["outdated"], more["after"]["outdated"] = outdated, []
    if forgotten:
        more["before"]["failed_builds"], more["after"]["failed_builds"] = forgotten, 0
    return {
        when: json.dumps({**done[when], **more[when]}, indent=1, sort_keys=True) + "\n" for when in ("before", "after")
    }


def main():
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    store = Store(action="host_prepare")
    with failing(module):
        connection = connect()
        done = prepare(
            connection,
            store,
            module.params["settings"],
            module.params["pool_path"],
            dry=module.check_mode,
            accept_state=module.params["accept_state_directory"],
        )
        removed, forgotten = [], 0
        if module.params["remove_unused_images"] and done["before"]:
            host = Host(store=store, settings=load(), connect=lambda: connection)
            removed = unused_images.remove(host, dry=module.check_mode)
        if module.params["forget_failed_builds"]:
            forgotten = forget_failed_builds(store, module.check_mode)
    module.exit_json(
        changed=bool(done["changed"] or removed or forgotten),
        parts=done["changed"],
        host_uuid=done["uuid"],
        listener=done["listener"],
        restart=done["restart"],
        removed_images=sorted({unused_images.digest(path) for path in removed}),
        forgotten_failed_builds=forgotten,
        diff=shown(done, removed, forgotten),
    )


if __name__ == "__main__":
    main()
