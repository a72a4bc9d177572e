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

    # For the modules that claim, build and move.
    REGISTRY = r"""
options:
  registry:
    description:
      - The registry over which the run works. A host takes this only if it belongs to that registry and has seen no newer revision of
        it; without it, only a host that belongs to no registry.
    type: dict
    version_added: 1.0.0
    suboptions:
      kind:
        description: What keeps it, such as C(etcd).
        type: str
        required: true
      incarnation:
        description: Which one it is. A registry that was restored is another one.
        type: str
        required: true
      revision:
        description: The highest revision of it that the run has read.
        type: int
        required: true
"""

    # For the modules about one instance, by its uuid or its name.
    NAMED = r"""
options:
  uuid:
    description: The UUID of the instance. It follows from O(project_id) and O(name), so one of O(uuid) and O(name) is enough.
    type: str
  name:
    description: The name of the instance. An adopted instance is only known by its O(uuid).
    type: str
  project_id:
    description: The project that the instance belongs to. By default C(default).
    type: str
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
