# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cleans a host that leaves the fleet of what prepare_hosts and later runs put there.

The settings go first: from then on nothing can be claimed here, and an interrupted run can be repeated. libvirt, the
storage pools with all their files, and whatever is not as berth wrote it stay.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil

from ...model.errors import shortened
from ...model.identity import is_uuid
from .. import durable, kept_code, paths
from ..errors import HostNotEmpty, HostNotPrepared
from ..guest import domain, gate
from ..record import state_directory
from ..record.volume_store import VolumeStore
from ..run import run
from . import certificates, listening, outage_unit, settings, system
from .preparation import PARTS


@dataclasses.dataclass(frozen=True)
class Places:
    """Where berth puts things on a host; the store knows the state directory and the copy of its identity."""

    settings: str = settings.PATH
    pki: str = certificates.PKI
    hook: str = gate.HOOK
    run_dir: str = gate.RUN_DIR
    code: str = kept_code.DIRECTORY
    unit: tuple = outage_unit.FILES


def clean(host, authorities, places=Places(), dry=False):
    """Remove it all from a host that holds nothing. Return {removed, left, restart}. Else raise HostNotEmpty and change
    nothing.

    ``authorities``: {use: PEM of our authorities}; the certificates that they signed are removed. ``restart``: the
    services that must be restarted before another call removes the rest; empty if all is done.
    """
    host.identify()
    _check_empty(host)
    leaving = Leaving(host.store, authorities, places, dry)
    with contextlib.nullcontext() if dry else host.store.host_lock():
        _check_empty(host)  # again: from here on nobody can claim
        return leaving.clean()


def _check_empty(host):
    held = ["instance %s" % record.name for record in host.store.records()]
    held += ["volume %s" % record.name for record in VolumeStore.beside(host.store).records()]
    held = held or [
        "guest %s" % found.name() for found in host.connection.listAllDomains(0) if domain.is_managed(found)
    ]
    held = held or _files(host)
    if held:
        raise HostNotEmpty("this host holds %s" % shortened(sorted(held)))


def _files(host):
    """Return files of instances, volumes and copies below any pool. The pool of the settings must be available."""
    if host.settings.prepared and host.has_pool(host.settings.pool):
        host.pool_path()
    parts = [os.path.join(pool, part) for pool in host.pool_paths() for part in PARTS]
    found = [os.path.join(part, name) for part in parts for name in paths.entries(part) if is_uuid(name[:36])]
    return ["%s, which has no record" % path for path in found]


class Leaving:
    """One run. It is made before it takes the host's lock, because that creates a missing state directory."""

    def __init__(self, store, authorities, places, dry):
        self.store, self.authorities, self.places, self.dry = store, authorities, places, dry
        self.had_state = os.path.lexists(store.state_dir)
        self.removed, self.left = [], []

    def clean(self):
        self._remove(self.places.settings)
        self._listen_everywhere()
        self._remove_certificates()
        self._remove_hook()
        for path in self.places.unit:
            self._remove(path)
        restart = self._to_restart()
        if not restart:
            self._remove_state()
            self._remove_tree(self.places.run_dir)
            self._remove_tree(self.places.code)  # last: this run's own code comes from there
        return {"removed": self.removed, "left": self.left, "restart": restart}

    # steps

    def _remove_certificates(self):
        for use, place in certificates.PLACES.items():
            there = self._there(place.certificates)
            # certificates go last: they show whose the other files are
            found = self._there((*place.keys, place.revoked, place.authority)) + there
            if there and certificates.are_signed_by(self.authorities.get(use, ""), there):
                if use == "libvirt":
                    self._stop_listening()
                for path in found:
                    self._remove(path)
            elif found:
                self.left.append("%s: no authority of this fleet has signed a certificate there" % ", ".join(found))

    def _listen_everywhere(self):
        """Remove only our line: the file may have others, which are not ours."""
        if listening.differs(None):
            self.removed.append("berth's part of %s" % listening.path())
            if not self.dry:
                gate.note_restart(self.places.run_dir)
                listening.settle(None)

    def _there(self, names):
        found = [os.path.join(self.places.pki, name) for name in names]
        return [path for path in found if os.path.lexists(path)]

    def _stop_listening(self):
        """Close the port before the certificates go: libvirt would not start without them. A restart frees it."""
        if self.dry:
            return
        gate.note_restart(self.places.run_dir)
        if system.service_manager() == "systemd":
            run(["systemctl", "disable", "--now", listening.service() + "-tls.socket"], error=HostNotPrepared)

    def _remove_hook(self):
        hook = self.places.hook
        if gate.is_installed(hook):
            self._remove(hook)
        elif os.path.lexists(hook):
            self.left.append("%s: it is not as berth wrote it" % hook)
        self._remove(gate.temporary(hook))

    def _to_restart(self):
        """Return the services that still run with the certificates, which they read when they start."""
        if self.dry or not os.path.isdir(self.places.run_dir):
            return []
        return gate.to_restart(self.places.run_dir)

    def _remove_state(self):
        """Remove the state directory after its identity: if interrupted, no untrusted directory is left."""
        if not self.dry:
            state_directory.give_up(self.store)
        self._remove(self.store.identity_copy)
        self._remove_tree(self.store.state_dir, reported=self.had_state)
        self._remove_empty(os.path.dirname(self.places.settings))

    # files

    def _remove(self, path):
        if not os.path.lexists(path):
            return
        self.removed.append(path)
        if not self.dry:
            durable.remove_at(path)

    def _remove_tree(self, path, reported=True):
        if not os.path.lexists(path):
            return
        if os.path.islink(path) or not os.path.isdir(path):
            self.left.append("%s: it is no directory of berth's" % path)
            return
        if not self.dry:
            try:
                shutil.rmtree(path)
            except OSError as error:
                self.left.append("%s: %s" % (path, error.strerror))
                return
        if reported:
            self.removed.append(path)

    def _remove_empty(self, path):
        """Remove the directory of the settings, unless somebody else has files there."""
        if self.dry or not os.path.isdir(path):
            return
        try:
            os.rmdir(path)
        except OSError as error:
            self.left.append("%s: %s" % (path, error.strerror))
