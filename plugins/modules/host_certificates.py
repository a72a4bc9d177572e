#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_certificates
version_added: 1.0.0
short_description: Keys and certificates with which a KVM host migrates guests
description:
  - Reports which certificates the host has in C(/etc/pki) for libvirt and QEMU, and makes the host's keys and certificate
    requests where they are missing. Keys never leave the host.
  - With O(signed) installs what M(berth.kvm.sign_certificates) signed on the controller.
  - Role P(berth.kvm.kvm_host#role) calls it.
options:
  signed:
    description:
      - The new files to install, by use (C(libvirt), C(qemu)), among C(certificate), C(authority) and C(revoked), in
        PEM.
      - If this option is given, even empty, the owners and modes of all these files are corrected, too.
    type: dict
extends_documentation_fragment:
  - berth.kvm.host
attributes:
  platform:
    details: Linux with libvirt, QEMU and openssl.
"""

EXAMPLES = r"""
- name: See what the host has
  berth.kvm.host_certificates:
  register: found
"""

RETURN = r"""
held:
  description: What the host has, by use, each with C(request), C(certificate), C(authority) and C(revoked) (the list of
    revoked certificates) in PEM or empty.
  returned: success
  type: dict
  sample: {libvirt: {request: "", certificate: "", authority: "", revoked: ""}, qemu: {}}
address:
  description: The address that other hosts reach this one by.
  returned: success
  type: str
  sample: 192.0.2.11
files:
  description: The files that were changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/pki/libvirt/servercert.pem]
loose:
  description: The files and directories whose owner or mode was wrong.
  returned: success
  type: list
  elements: str
  sample: [/etc/pki/libvirt/private/serverkey.pem]
restart:
  description: The services that run with older certificates, or none, until they are restarted.
  returned: success
  type: list
  elements: str
  sample: [libvirtd]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.connection import connect
from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import gate
from ..module_utils.compute.host import address, as_qemu, listening, settings
from ..module_utils.compute.host.own_certificates import Certificates


def act(module):
    connection = connect()
    listening.check()
    qemu = as_qemu.user(connection.getCapabilities())
    certificates = Certificates(qemu[1], dry=module.check_mode)
    held = certificates.held()
    loose = [path for path, _mode, _gid in certificates.loose()]
    if module.params["signed"] is not None and not module.check_mode:
        certificates.install(module.params["signed"])
        certificates.tighten()
    if not certificates.loose():
        as_qemu.check(qemu, as_qemu.certificates())
    return {
        "changed": bool(certificates.changed),
        "held": held,
        "address": address.of_host(settings.load().migration_address, connection.getHostname()),
        "files": certificates.changed,
        "loose": loose,
        "restart": gate.to_restart(),
    }


def main():
    module = AnsibleModule(argument_spec={"signed": {"type": "dict"}}, supports_check_mode=True)
    with failing(module):
        result = act(module)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
