# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab: its name, where its state is, its place among the other labs of the machine (slot), its addresses and names.

Two labs differ by their state directory, so the same lab name in two checkouts gives two labs. What the machine shares
(link names, subnets, control sockets) carries the slot, a number that each lab holds while it is up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import zlib
from pathlib import Path

from .run import LabError, run

REPOSITORY = Path(__file__).resolve().parent.parent.parent
REGISTRY = Path("/run/berth-lab")
SLOTS = 120  # 10.231.<2 x slot>.0/24 is the management network, the next /24 the guests'


class Lab:
    def __init__(self, name, state_root=None):
        if not re.fullmatch(r"[a-z]([a-z0-9-]{0,14}[a-z0-9])?", name):
            raise LabError("lab name %r: small letters, digits and '-', at most 16, beginning with a letter" % name)
        self.name = name
        self.state = (
            Path(state_root or os.environ.get("BERTH_LAB_STATE") or REPOSITORY / ".cache" / "lab").resolve() / name
        )
        if re.search(r"[\s,:\\]", str(self.state)):  # overlayfs and ssh options take them for separators
            raise LabError("%s: set BERTH_LAB_STATE to a path without spaces, ',' and ':'" % self.state)
        self.cache = REPOSITORY / ".cache"

    @contextlib.contextmanager
    def lock(self):
        """Only one command changes a lab at a time."""
        self.state.parent.mkdir(parents=True, exist_ok=True)
        with open(self.state.parent / (self.name + ".lock"), "w", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    # --- the slot
    def claim_slot(self):
        """Take the slot that the state directory's name points to, or the next one that is free."""
        if (self.state / "lab.json").exists():
            (REGISTRY / str(self.slot)).parent.mkdir(parents=True, exist_ok=True)
            (REGISTRY / str(self.slot)).write_text(str(self.state))
            return
        REGISTRY.mkdir(parents=True, exist_ok=True)
        with open(REGISTRY / "lock", "w", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            addresses = run("ip", "-o", "-4", "addr").stdout
            first = zlib.crc32(str(self.state).encode())
            for slot in ((first + step) % SLOTS for step in range(SLOTS)):
                owner = REGISTRY / str(slot)
                taken = owner.exists() and owner.read_text() != str(self.state) and Path(owner.read_text()).exists()
                if (
                    not taken
                    and " 10.231.%d." % (2 * slot) not in addresses
                    and " 10.231.%d." % (2 * slot + 1) not in addresses
                ):
                    owner.write_text(str(self.state))
                    self.state.mkdir(parents=True, exist_ok=True)
                    (self.state / "lab.json").write_text(json.dumps({"slot": slot}))
                    return
        raise LabError("all %d lab slots of this machine are taken (see %s)" % (SLOTS, REGISTRY))

    def release_slot(self):
        (REGISTRY / str(self.slot)).unlink(missing_ok=True)
        if REGISTRY.exists() and {entry.name for entry in REGISTRY.iterdir()} <= {"lock"}:
            (REGISTRY / "lock").unlink(missing_ok=True)
            REGISTRY.rmdir()

    @property
    def slot(self):
        return json.loads((self.state / "lab.json").read_text())["slot"]

    @property
    def is_known(self):
        return (self.state / "lab.json").exists()

    # --- what is derived from it
    @property
    def management(self):
        return "10.231.%d" % (2 * self.slot)

    @property
    def guests(self):
        return "10.231.%d" % (2 * self.slot + 1)

    @property
    def management_bridge(self):
        return "bl%dm" % self.slot

    @property
    def guest_bridge(self):
        return "bl%dg" % self.slot

    @property
    def control_sockets(self):
        """Short, because a UNIX socket's path may have 107 bytes only."""
        return REGISTRY / ("%d.ssh" % self.slot)

    @property
    def inventory(self):
        return self.state / "inventory.yml"

    @property
    def image(self):
        """The guest image that lab/image has built, here and in the directory that the hosts share."""
        return self.cache / "image" / "guest.qcow2"

    @property
    def shared(self):
        return self.state / "shared"

    @property
    def key(self):
        return self.state / "ssh" / "id_ed25519"

    @property
    def known_hosts(self):
        return self.state / "ssh" / "known_hosts"

    @property
    def etc_hosts(self):
        return self.state / "etc-hosts"
