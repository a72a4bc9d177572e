# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a procedure asks the hosts, and tells, in the order in which it does.

A procedure is a generator: the one place where the order of an operation is written. It yields an Ask and gets the hosts'
answers, or yields a Say and gets nothing; it neither reads nor writes anything itself. Whoever drives it carries it out:
plugin_utils/driving.py over Ansible's workers, the tests on hosts in memory, where each call to a host can be the last one.
"""

from __future__ import annotations

from typing import Any, Dict, Generator, Mapping, NamedTuple, TypeVar, Union

from ...model.messages import Document


class Ask(NamedTuple):
    """Each host in ``arguments`` runs ``module`` with its own. Answers: host -> what the module replied, or {error}, or
    {reason} where the host did not answer."""

    module: str
    arguments: Dict[str, Document]


class Say(NamedTuple):
    """What people and programs hear while the procedure goes on: {uuid, host, and of STATES those that the instance has
    now}. A move also tells the ``leg`` that begins, and the one that ``ended``, with {changed, took}."""

    instance: str
    event: Document


STATES = ("role", "phase", "vm_state", "task_state", "power_state", "state")

Answers = Mapping[str, Any]
Result = TypeVar("Result")
Procedure = Generator[Union[Ask, Say], Answers, Result]
