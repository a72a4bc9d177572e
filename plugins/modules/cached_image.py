#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cached_image
version_added: 1.0.0
short_description: Look for an image in the cache of a KVM host, or put one there
description:
  - Reports whether the host has the image with a given checksum. With O(path), the file is checked by checksum and
    header, like a download, and becomes the host's image.
  - Images with C(upload) come this way from the controller, when the first instance of a host needs one.
options:
  image:
    description: The image, as in a request spec.
    type: dict
    required: true
    suboptions:
      name:
        description: The name of the image in messages.
        type: str
        required: true
      checksum:
        description: V(sha256:) and 64 hexadecimal digits.
        type: str
        required: true
      disk_format:
        description: The format that the file must have. The host keeps one of other hypervisors as qcow2.
        type: str
        choices: [raw, qcow2, vmdk, vhdx, iso]
        required: true
  pool:
    description: The storage pool of the instance.
    type: str
  root_gb:
    description: The size of the root disk in GiB, which the image has to fit into; 0 is the image's own.
    type: int
    default: 0
  path:
    description: A file on the host to take into the cache. It stays where it is.
    type: path
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = r"""
- name: Does the host have the image?
  berth.kvm.cached_image:
    image:
      name: debian-12
      checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
      disk_format: qcow2
"""

RETURN = r"""
present:
  description: Whether the host has the image, or would have it.
  returned: success
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.disk import image
from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.host import Host
from ..module_utils.model import disk_formats

ARGUMENTS = {
    "image": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "checksum": {"type": "str", "required": True},
            "disk_format": {"type": "str", "choices": list(disk_formats.FORMATS), "required": True},
        },
    },
    "pool": {"type": "str"},
    "root_gb": {"type": "int", "default": 0},
    "path": {"type": "path"},
}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    with failing(module):
        host = Host.here("cached_image")
        host.require_prepared()
        pool_path = host.pool_path(params["pool"])
        present = image.is_cached(pool_path, params["image"])
        changed = bool(params["path"]) and not present
        if changed and not module.check_mode:
            image.take_in(pool_path, params["image"], params["path"], params["root_gb"], host.settings)
    module.exit_json(changed=changed, present=present or changed)


if __name__ == "__main__":
    main()
