# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation that is common to the modules that run on a KVM host."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
author:
  - The berth.kvm authors (!UNKNOWN)
requirements:
  - Python 3.9 or later
  - libvirt's binding for the Python that Ansible uses on the host (package python3-libvirt)
attributes:
  check_mode:
    support: full
    description: Can run in check mode and say what it would do, without changing the host.
  diff_mode:
    support: none
    description: Returns details on what has changed, or would change in check mode, when in diff mode.
  platform:
    support: full
    description: The target systems that the module can run on.
    details: Linux with libvirt and QEMU.
    platforms: posix
"""

    # For the modules that record what they do.
    BY = r"""
options:
  by:
    description: Who runs this, with C(who) and the id of the C(run). Both are kept in the instance's history.
    type: dict
"""

    # Facts only: nothing changes, so there is no difference to show.
    FACTS = r"""
attributes:
  check_mode:
    details: Gathers facts and changes nothing.
  diff_mode:
    details: Gathers facts, there is nothing to compare.
  facts:
    description: Action returns an C(ansible_facts) dictionary that will update existing host facts.
    support: full
"""
