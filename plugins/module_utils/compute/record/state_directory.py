# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the state directory is the one that this host was prepared with, and not an older copy of it.

It contains an identity {id, serial}, of which a copy lies outside. The serial counts how often this host became or
ceased to be the owner of an instance. If the directory is not mounted, is another one, or comes from an older backup,
it differs from the copy; then its records, and missing ones, prove nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from typing import Any, Dict, Optional

from ...model import state_hints
from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable, lock
from ..errors import HostBusy
from .state_file import NONSENSE

FILE = "identity.json"
LOCK = "identity.lock"
COPY = "/etc/berth/state.json"
TIMEOUT = 60  # s


class StateDirectoryChanged(BerthError):
    """The host's state directory is not mounted, was exchanged, or is older than before. What it says about instances
    cannot be trusted."""

    retryable = True


def look(store) -> Dict[str, Any]:
    """Return {id, serial, fault}. ``fault`` is None or says in a line what is wrong. An unprepared host has no id."""
    try:
        copy = _read(os.path.dirname(store.identity_copy), os.path.basename(store.identity_copy))
        here = _read(store.state_dir, FILE)
    except NONSENSE as error:
        return {"id": None, "serial": 0, "fault": clean("the identity of %s is damaged: %s" % (store.state_dir, error))}
    found = here or {"id": None, "serial": 0}
    return {**found, "fault": _fault(store.state_dir, here, copy)}


def check(store) -> None:
    """Raise StateDirectoryChanged if the records cannot be trusted to claim, build or start anything."""
    fault = look(store)["fault"]
    if fault:
        raise StateDirectoryChanged(fault, hint=state_hints.mount_state_directory(store.state_dir))


def advance(store) -> None:
    """Count one more change of an owner, before it is written. A directory with a fault is left as it is."""
    if not _counts(look(store)):
        return
    with _locked(store):
        state = look(store)
        if _counts(state):
            _write(store, state["id"], state["serial"] + 1)


def _counts(state) -> bool:
    return bool(state["id"]) and not state["fault"]


def establish(store, accept=False, dry=False) -> bool:
    """Give the directory an identity if it has none yet, and write the copy. Return whether anything was, or would be,
    changed.

    Refuse one with a fault, unless ``accept`` says that its records are complete: then it gets a new identity.
    """
    state = look(store)
    if state["fault"] and not accept:
        raise StateDirectoryChanged(state["fault"], hint=state_hints.mount_state_directory(store.state_dir))
    complete = state["id"] and os.path.exists(store.identity_copy)
    if complete and not state["fault"]:
        return False
    if not dry:
        with _locked(store):
            anew = state["fault"] or not state["id"]
            _write(store, secrets.token_hex(16) if anew else state["id"], 0 if anew else state["serial"])
    return True


def give_up(store) -> None:
    """Make the directory nobody's, before it is removed. The copy goes first, so no state in between has a fault."""
    state = look(store)
    if state["id"] and state["serial"]:
        with _locked(store):
            _write_copy(store, state["id"], 0)
            _write(store, state["id"], 0)


def _fault(directory, here, copy) -> Optional[str]:
    if copy is None:
        return _fault_without_copy(directory, here)
    if here is None:
        return "the state directory %s is empty or another one, it has no identity: is it mounted?" % directory
    if here["id"] != copy["id"]:
        return "the state directory %s is another one than this host was prepared with" % directory
    if here["serial"] < copy["serial"]:
        return "the state directory %s is older than it was: it was restored from a backup" % directory
    return None


def _fault_without_copy(directory, here) -> Optional[str]:
    """A host that was never prepared has no copy. Neither has a host that got another host's directory: if the
    directory ever owned an instance, it was some host's."""
    if here is None or not here["serial"]:
        return None
    return "the state directory %s is that of another host, or %s was removed here" % (directory, COPY)


def _read(directory, name) -> Optional[Dict[str, Any]]:
    data = durable.read_in(directory, name, mode=0o755)
    if data is None:
        return None
    found = json.loads(data)
    return {"id": str(found["id"]), "serial": int(found["serial"])}


def _write(store, identity, serial) -> None:
    """Write the directory first, then the copy: after a crash in between the directory is ahead, which is not a fault."""
    durable.write_in(store.state_dir, FILE, _encode(identity, serial), create=True)
    _write_copy(store, identity, serial)


def _write_copy(store, identity, serial) -> None:
    directory, name = os.path.split(store.identity_copy)
    durable.write_in(directory, name, _encode(identity, serial), create=True, mode=0o755)


def _encode(identity, serial) -> bytes:
    return json.dumps({"id": identity, "serial": serial}).encode()


@contextlib.contextmanager
def _locked(store):
    """Hold a lock of its own: an owner that lets go does not wait for a claim that reads the host's facts."""

    def busy(who):
        return HostBusy("the identity of the state directory is locked by %s" % who, holder=who)

    def opened():
        return durable.open_directory(store.state_dir, create=True)

    directory_fd, fd = lock.acquire(opened, LOCK, TIMEOUT, store.action, busy)
    try:
        yield
    finally:
        os.close(fd)
        os.close(directory_fd)
