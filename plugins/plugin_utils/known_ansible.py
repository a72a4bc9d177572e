# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of ansible-core that the collection was tested with: with any other, no host is asked or changed.

delegates.py uses private parts of Ansible, which may differ in the next version. It is only imported through this file.
"""

from __future__ import annotations

from types import ModuleType

from ansible.release import __version__ as VERSION

from ..module_utils.conductor.errors import AnsibleUnknown
from ..module_utils.model import host_hints

TRIED = ("2.19", "2.20", "2.21", "2.22")  # by tests/matrix.sh; meta/runtime.yml and requirements.txt say the same
REQUIREMENT = "ansible-core>=2.19,<2.23"


def check() -> None:
    """Raise AnsibleUnknown for an ansible-core that the collection was not tested with."""
    if ".".join(VERSION.split(".")[:2]) not in TRIED:
        raise AnsibleUnknown(
            "this is ansible-core %s, and berth.kvm was tried with %s only. No host was asked and nothing was changed"
            % (VERSION, ", ".join(TRIED)),
            hint=host_hints.install_on_controller(REQUIREMENT),
        )


def delegates() -> ModuleType:
    """The module delegates, if this ansible-core is known: imported with any other, it may end in a traceback."""
    check()
    from . import delegates as known

    return known
