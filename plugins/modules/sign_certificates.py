# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sign_certificates
version_added: 1.0.0
short_description: Sign the certificates with which KVM hosts migrate guests
description:
  - Looks at the certificates that M(berth.kvm.host_certificates) found on a host, and signs new ones where they are
    missing, have less than a third of their time left, or are for other names or another key.
  - Runs in the controller. Two authorities, one for libvirt and one for QEMU, are made in O(directory) at first use.
    Their keys never leave it. An authority's certificate is renewed with the same key when it is due.
  - What was signed for a host is remembered in O(directory), for M(berth.kvm.remove_host). A host that lacks a part of the list of
    revoked certificates gets it.
  - While the authorities are being changed by M(berth.kvm.rotate_authority), a host gets the certificates of both, and
    it is noted when the host has everything that it needs in that phase.
  - Certificates that another authority signed are not replaced. The task fails with C(CertificateForeign).
  - A host that has the certificate of another name of the inventory gets none before the run has compared both machines
    (C(HostIdentityConflict)). If they are one, each run would replace the certificate of the other name.
options:
  held:
    description: RV(berth.kvm.host_certificates#module:held) of the host.
    type: dict
    required: true
  names:
    description: The host names and addresses under which other hosts reach this one. Names in the host's own request are ignored.
    type: list
    elements: str
    required: true
  directory:
    description: The directory of the authorities on the controller. It is made with mode 0700; no other user may have access to it.
    type: path
    required: true
  days:
    description: For how many days a certificate is valid, 1 to 3650. It never outlives its authority.
    type: int
    default: 730
  address:
    description: The address at which the host says that others reach it. If it is not in O(names), there is a warning. It never
      gets into a certificate just because the host reports it, since a host could report another host's address.
    type: str
  restart_pending:
    description: Whether libvirt on the host runs with older certificates than these until it is restarted.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: See what the host has
  berth.kvm.host_certificates:
  register: found

- name: Sign what is missing
  berth.kvm.sign_certificates:
    held: "{{ found.held }}"
    names: ["{{ inventory_hostname }}", "{{ found.address }}"]
    directory: /etc/berth/ca
  register: answer

- name: Bring it to the host
  berth.kvm.host_certificates:
    signed: "{{ answer.signed }}"
"""

RETURN = r"""
reasons:
  description: Why a certificate was signed, by its use.
  returned: success
  type: dict
  sample: {libvirt: ["it counts from 2025-01-31 to 2027-01-31"]}
signed:
  description: The new certificates with their authority, by use. Empty in check mode.
  returned: success
  type: dict
  sample: {}
rotating:
  description: Whether the authorities are being changed, so that the host is to show again that it has what it got.
  returned: success
  type: bool
  sample: false
"""
