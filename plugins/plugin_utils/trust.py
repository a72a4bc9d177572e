# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which authorities the hosts trust, and how a fleet changes from one to the next while every host accepts every other.

A rotation has three phases, recorded in one file: ``trust``: all hosts trust the old authority and the new one;
``sign``: the new one signs their certificates; ``drop``: they trust only the new one. The next phase begins when each
host has shown in this run that it has completed the present one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os

from ..module_utils.conductor.errors import AuthorityStillNeeded, AuthorityUnsafe
from ..module_utils.model import fleet_hints, input_hints
from . import authority as ca
from .documents import write_file
from .inventory_variables import is_true, variables
from .misplaced import RENAMED
from .revoked import Signed

FILE = "rotation.json"
MOST_GENERATIONS = 1000  # each is read in each run
REST, TRUST, SIGN, DROP = PHASES = ("rest", "trust", "sign", "drop")
AWAITED = {
    TRUST: "trust the new authority",
    SIGN: "have a certificate of the new authority",
    DROP: "trust the new authority alone",
}
WANTED = "berth_host_certificates"
DIRECTORY = "berth_ca_directory"
DIRECTORY_OPTION = {"type": "path", "default": "~/.berth/ca"}  # of the actions that are for no particular host


@dataclasses.dataclass(frozen=True)
class Rotation:
    """``generation``: of the authorities, 1 for the first; ``ready``: the hosts that have completed this phase."""

    generation: int = 1
    phase: str = REST
    ready: tuple = ()

    @property
    def trusted(self):
        """The generations that hosts trust, the old one first."""
        both = (self.generation, self.generation + 1)
        return both if self.phase in (TRUST, SIGN) else both[:1]

    @property
    def signer(self):
        return self.trusted[-1] if self.phase == SIGN else self.generation


class Trust:
    """The authorities of one kind that hosts trust, with the records of what each has signed."""

    def __init__(self, directory, kind, rotation, dry=False):
        made = [ca.Authority(directory, kind, dry, number) for number in rotation.trusted]
        earlier = [ca.Authority(directory, kind, True, number) for number in range(1, rotation.generation)]
        self.ours, self.dry = [*made, *earlier], dry
        self.signer = made[rotation.trusted.index(rotation.signer)]
        self.made = any(authority.made for authority in made)
        self.text = "".join(authority.text for authority in made)
        self.books = [Signed(authority, directory, dry) for authority in made]

    def brought(self, theirs, names, days):
        """Return (why, what the host should install: certificate, authorities, and lists of revoked certificates)."""
        why, parts = self.signer.reasons(theirs, names, self.text, self.ours), {}
        for book in self.books:
            book.note(names[0], theirs["certificate"])
            book.take_over(theirs["revoked"])
        if any(book.has_revoked(theirs["certificate"]) for book in self.books):
            why.append("it was revoked")
        if why and not self.dry:
            parts = {"certificate": self.signer.sign(theirs["request"], names, days), "authority": self.text}
            for book in self.books:
                book.note(names[0], parts["certificate"])
        if any(book.lacks(theirs["revoked"]) for book in self.books):
            why.append("the host does not have the newest list of revoked certificates")
            parts["revoked"] = "".join(book.text for book in self.books)
        return why, parts


def directory_of(task_vars, hosts, default):
    """Where prepare_hosts keeps the authorities, from the variables of the KVM hosts."""
    for host in hosts:
        if host in task_vars["hostvars"]:
            found = _said(task_vars, host, DIRECTORY)
            if found:
                return os.path.expanduser(found)
    return os.path.expanduser(default)


def wanted(task_vars, hosts):
    """The hosts that have certificates of ours."""
    said = {host: _said(task_vars, host, WANTED) for host in hosts}
    return [host for host in hosts if said[host] is None or is_true({WANTED: said[host]}, WANTED)]


def _said(task_vars, host, name):
    """The variable of the host, also by its name before 1.0; None if it has none."""
    old = {new: old for old, new in RENAMED.items()}[name]
    found = variables(task_vars, host, [name, old])
    return found.get(name, found.get(old))


# ---- the file -------------------------------------------------------------------------------------------------------


def load(directory):
    if not os.path.isdir(directory):
        return Rotation()
    with ca.locked(directory) as folder:
        return _read(folder)


def note_ready(directory, host, rotation):
    """Record that the host has completed this phase, unless another run has gone on to the next."""
    with ca.locked(directory) as folder:
        now = _read(folder)
        if (now.generation, now.phase) == (rotation.generation, rotation.phase) and host not in now.ready:
            _write(folder, dataclasses.replace(now, ready=(*now.ready, host)))


def begin(directory):
    """Begin a rotation, or continue the current one: each host reports its phase again."""
    with ca.locked(directory) as folder:
        now = _read(folder)
        new = Rotation(now.generation, TRUST if now.phase == REST else now.phase)
        _write(folder, new)
    return new


def advance(directory, phase, hosts):
    """Go on to the phase, ``rest`` after the last, if the rotation is in the one before it and all hosts are ready."""
    with ca.locked(directory) as folder:
        now = _read(folder)
        if now.phase == REST or PHASES[(PHASES.index(now.phase) + 1) % len(PHASES)] != phase:
            return now  # an interrupted run had gone further
        waits = [host for host in hosts if host not in now.ready]
        if waits or not hosts:
            raise AuthorityStillNeeded.of(waits, AWAITED[now.phase], fleet_hints.go_on_rotating())
        new = Rotation(now.generation + (phase == DROP), phase)
        if phase == REST:
            _forget_keys(folder, now.generation)
        _write(folder, new)
    return new


def _forget_keys(folder, generation):
    """Delete the keys of authorities that no host trusts any more. Certificates stay, to know hosts that were away."""
    for number in range(1, generation):
        for kind in ca.KINDS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(ca.stem(kind, number) + "-ca.key", dir_fd=folder)


def _read(folder):
    data = ca.read(folder, FILE, private=True)
    if not data:
        return Rotation()
    try:
        found = json.loads(data)
        new = Rotation(found["generation"], found["phase"], tuple(found["ready"]))
        good = isinstance(new.generation, int) and 0 < new.generation <= MOST_GENERATIONS and new.phase in PHASES
        if not good or not all(isinstance(host, str) for host in new.ready):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise AuthorityUnsafe("%s is not as it was written" % FILE, hint=input_hints.bring_authority_key_back(FILE))
    return new


def _write(folder, rotation):
    write_file(folder, FILE, json.dumps(dataclasses.asdict(rotation), sort_keys=True).encode(), 0o600)
