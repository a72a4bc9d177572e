# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a guest, as far as a host sees without logging in: libvirt's state, the guest agent, the console's end.

Guests get no pvpanic device: with it, libvirt would stop a guest that reboots itself after a panic.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, Optional

from ...model import hints
from ...model.safe_text import clean
from .. import paths
from ..connection import Deadline, LibvirtTimeout, require_libvirt
from ..errors import GuestHung
from . import agent, domain
from .domains import hung

CRASHED, ANSWERS, UP, NO_PANIC, OFF, NOT_LOOKED_AT = (
    "crashed", "answers", "up", "no panic seen", "off", "not looked at",
)  # fmt: skip
CAME_UP = (ANSWERS, UP)
TAIL = 64 << 10  # bytes of the console log: a panic is its end
PANIC = "Kernel panic - not syncing"
LOGIN = re.compile(r"\blogin:\s*$")
# What a guest prints that goes down or begins anew after it asked for a login.
BOOT = re.compile(r"BdsDxe|SeaBIOS|GRUB|Linux version|reboot: |Power down|^\[ *[0-4]\.\d+\]")
# What UEFI firmware ends with, and the lines of registers that follow it.
EXCEPTION = re.compile(r"!!!! \w+ Exception|^ASSERT(_EFI_ERROR)? ?[\[(]")
DUMP = re.compile(r"^(!!!!|ExceptionData|FXSAVE_STATE|[A-Z][A-Z0-9]{1,5} +-)")
PRINTK = re.compile(r"\[ *(\d+\.\d+)\]")


def look(connection: Any, uuid: str) -> Dict[str, str]:
    """Return {state, seen}: what is known of the guest, and from which sign. ``seen`` may contain text of the guest."""
    if domain.has_crashed(connection, uuid):
        return _said(CRASHED, "libvirt says that it crashed")
    guest = domain.find_active(connection, uuid)
    if guest is None:
        return _said(OFF, "it does not run")
    if agent.answers(guest):
        return _said(ANSWERS, "its agent answers")
    console = end_of(paths.console_log(uuid))
    panic = last_panic(console) or last_exception(console)
    if panic:
        return _said(CRASHED, 'its console ends with "%s"' % panic)
    if asks_for_login(console):
        return _said(UP, "its console asks for a login")
    if console.strip():
        return _said(NO_PANIC, "no agent answers, its console ends without a panic")
    return _said(NOT_LOOKED_AT, "it has no agent that answers, and says nothing on its console")


def _said(state: str, seen: str) -> Dict[str, str]:
    return {"state": state, "seen": clean(seen, 255)}


def end_of(path: str) -> str:
    """Return the end of a guest's console log, empty if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return ""
        return os.pread(fd, TAIL, max(0, status.st_size - TAIL)).decode("utf-8", "replace")
    finally:
        os.close(fd)


def last_panic(console: str) -> Optional[str]:
    """Return the line of a Linux panic if the guest printed nothing after it, else None. The kernel itself prints lines
    after a panic, with the time since its boot. If that time starts again, or any other line follows, the guest was
    started since."""
    lines = [line.strip() for line in console.split("\n")]
    at = max((number for number, line in enumerate(lines) if PANIC in line), default=None)
    if at is None:
        return None
    since = _time_of(lines[at])
    for line in filter(None, lines[at + 1 :]):
        now = _time_of(line)
        if now is None or "Rebooting in" in line or (since is not None and now < since):
            return None
    return lines[at]


def asks_for_login(console: str) -> bool:
    """Whether the guest asked for a login and has not gone down since. Its kernel may have printed lines after that."""
    lines = [line.strip() for line in console.split("\n")]
    at = max((number for number, line in enumerate(lines) if LOGIN.search(line)), default=None)
    return at is not None and not any(BOOT.search(line) for line in lines[at + 1 :])


def last_exception(console: str) -> Optional[str]:
    """Return the line of an exception or a failed assertion of UEFI firmware if nothing was printed after its registers."""
    lines = [line.strip() for line in console.split("\n")]
    at = max((number for number, line in enumerate(lines) if EXCEPTION.search(line)), default=None)
    if at is None or not all(DUMP.match(line) for line in filter(None, lines[at + 1 :])):
        return None
    return lines[at]


def _time_of(line: str) -> Optional[float]:
    found = PRINTK.match(line)
    return float(found[1]) if found else None


# Whether the QEMU of a running guest answers: waiting for one that does not could take for ever.
ANSWER = 20  # s in which a healthy QEMU answers


def check_answers(connection, uuid, name, host):
    """Raise GuestHung if the guest is on and its QEMU does not answer."""
    library = require_libvirt()
    guest = domain.find_active(connection, uuid)
    if guest is None:
        return
    reason = hung({uuid: (guest, "running")}).get(uuid)
    if not reason:
        try:
            Deadline(ANSWER).call(guest.blockStatsFlags, "", 0, what="asking QEMU")
        except LibvirtTimeout:
            reason = "QEMU has not answered for %d s" % ANSWER
        except library.libvirtError as error:
            if error.get_error_code() != library.VIR_ERR_OPERATION_TIMEOUT:
                return  # it answered, or has just ended
            reason = "another call to it has not ended: %s" % error
    if reason:
        raise GuestHung(
            "the guest of %s (%s) on %s does not answer: %s. Nothing was done to it" % (name, uuid, host, reason),
            hint=hints.hung_guest(name),
            instance=name,
            host=host,
        )
