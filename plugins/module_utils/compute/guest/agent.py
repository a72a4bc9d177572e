# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent in a guest (qemu-guest-agent): whether it answers, and what it is asked to do. A guest can lie and be silent:
each question has a time limit, and an error is as good as no agent."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator
from xml.etree import ElementTree

from ..connection import Deadline, LibvirtTimeout, require_libvirt
from .domains import POWER_STATES
from .terms import GUEST_AGENT

ANSWER = 10  # s; libvirt itself gives an agent 5 s


def is_connected(found: Any) -> bool:
    """Whether libvirt says that an agent of the guest has opened its channel."""
    target = ElementTree.fromstring(found.XMLDesc(0)).find("devices/channel/target[@name='%s']" % GUEST_AGENT)
    return target is not None and target.get("state") == "connected"


def is_there(found: Any) -> bool:
    """The same, whatever happens to the guest meanwhile."""
    return _in_time(lambda: is_connected(found), ANSWER)


def answers(found: Any) -> bool:
    return is_there(found) and _in_time(lambda: bool(found.getTime()), ANSWER)


def shut_down(found: Any, seconds: float) -> None:
    """Ask for a clean shutdown, and wait until the guest is off, at most ``seconds``. libvirt waits longer for the agent,
    and would have a second request wait for the first: so one is enough."""
    flag = require_libvirt().VIR_DOMAIN_SHUTDOWN_GUEST_AGENT
    _in_time(lambda: found.shutdownFlags(flag), seconds)


def freeze(found: Any) -> bool:
    """Have the guest write out its file systems, and write no more. Return whether it says that it does."""
    return is_there(found) and bool(_in_time(lambda: found.fsFreeze() > 0, ANSWER))


def thaw(found: Any) -> None:
    """Have a frozen guest write again."""
    if is_there(found):
        _in_time(found.fsThaw, ANSWER)


@contextlib.contextmanager
def frozen(found: Any) -> Iterator[bool]:
    """Have a guest whose CPUs run frozen meanwhile, if it can. Gives whether it says that it is. It is thawed in any case:
    the freeze may have taken too long, or a run that was killed left it frozen."""
    runs = POWER_STATES.get(found.state()[0]) == "running"
    try:
        yield runs and freeze(found)
    finally:
        if runs:
            thaw(found)


def _in_time(question: Callable[[], Any], seconds: float) -> Any:
    """Return what libvirt answers, or False if that is an error or takes too long."""
    try:
        return Deadline(seconds).call(question, what="asking the agent")
    except (require_libvirt().libvirtError, LibvirtTimeout):
        return False
