# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_task
version_added: 1.0.0
short_description: "Internal: run one of Ansible's own modules on a KVM host and keep only its outcome"
description:
  - Runs a module for packages, services, a reboot or a connection on the task's host. Only the outcome of the module is passed on. If the
    module ran as a task of its own, the host could set any variable through C(ansible_facts).
  - Part of role P(berth.kvm.kvm_host#role) and of the playbooks C(berth.kvm.rolling_reboot) and C(berth.kvm.watch).
options:
  module:
    description: The module of C(ansible.builtin) to run.
    type: str
    choices: [package, service, systemd_service, reboot, wait_for]
    required: true
  arguments:
    description: Its arguments.
    type: dict
    required: true
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
