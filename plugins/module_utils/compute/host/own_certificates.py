# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's keys and certificates for live migration, which the host makes and the controller signs.

Only root can read libvirt's key. QEMU's group can read QEMU's key, which has another authority: a guest that breaks out
finds nothing that gives access to libvirt.
"""

from __future__ import annotations

import os
import stat
import tempfile

from ...model import host_hints
from .. import durable, paths
from ..errors import HostNotPrepared
from ..guest import gate
from ..run import run
from .certificates import PKI, PLACES, why_not

PRIVATE = 0o700
MOST = 1 << 20  # bytes: enough for 20,000 revoked certificates


class Certificates:
    def __init__(self, group, dry=False, pki=PKI, run_dir=gate.RUN_DIR):
        self.group, self.dry, self.pki, self.run_dir = group, dry, pki, run_dir
        self.changed = []

    def held(self):
        """Return {use: {request, certificate, authority, revoked}}, each PEM or empty. Make a missing key."""
        return {use: self._held(place) for use, place in PLACES.items()}

    def _held(self, place):
        keys = self._same(place.keys)
        if not keys and not self.dry and not any(os.path.exists(self._path(name)) for name in place.keys):
            keys = self._make_key(place)
        return {
            "request": self._request(place.keys[0]) if keys else "",
            "certificate": self._same(place.certificates),
            "authority": self._read(place.authority),
            "revoked": self._read(place.revoked),
        }

    def install(self, signed):
        """Note the restart. Install what the controller signed: {use: {certificate, authority, revoked}}, or parts."""
        for use, parts in signed.items():
            _check_counts(use, parts)
        if signed:
            gate.note_restart(self.run_dir)
        for use, parts in signed.items():
            place = PLACES[use]
            if not self._read(place.keys[0]):
                raise HostNotPrepared(
                    "there is no key for %s on this host" % use, hint=host_hints.prepare_host(os.uname().nodename)
                )
            files = {"certificate": place.certificates, "authority": (place.authority,), "revoked": (place.revoked,)}
            for part, text in parts.items():
                for name in files[part]:
                    self._put(place, name, text, secret=False)

    def loose(self):
        """Return [(path, mode, gid)] of files and directories with a wrong owner or mode, with the right ones."""
        found = [(path, mode, 0) for path, mode in self._directories() if self._is_wrong(path, mode)]
        for place in PLACES.values():
            for name in place.files():
                path, (mode, gid) = self._path(name), self._rights(place, secret=name in place.keys)
                if os.path.lexists(path):
                    status = os.lstat(path)
                    if (status.st_uid, status.st_gid, status.st_mode & 0o777) != (0, gid, mode):
                        found.append((path, mode, gid))
        return found

    def _directories(self):
        """Return [(path, mode)] of the directories in which there is nothing but what berth puts there: those are berth's, also
        where a umask gave them another mode. The others stay as they are."""
        names = [name for place in PLACES.values() for name in place.files()]
        own = {}
        for name in names:
            while name:
                name, below = os.path.split(name)
                own.setdefault(name, set()).add(below)
        found = [(self._path(name).rstrip("/"), name) for name in sorted(own)]
        return [(path, _mode(name)) for path, name in found if set(paths.entries(path)) <= own[name]]

    def _is_wrong(self, path, mode):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        has = stat.S_IMODE(status.st_mode)
        entered = has & 0o001 or status.st_gid == self.group and has & 0o010
        return stat.S_ISDIR(status.st_mode) and (
            status.st_uid != 0 or has & 0o022 or bool(has & 0o077 if mode == PRIVATE else not entered)
        )

    def tighten(self):
        """Set the right owner and mode."""
        for path, mode, gid in self.loose():
            os.chown(path, 0, gid, follow_symlinks=False)
            os.chmod(path, mode)
            self.changed.append(path)

    def _make_key(self, place):
        with tempfile.TemporaryDirectory() as scratch:  # mode 0700
            path = os.path.join(scratch, "key")
            run(
                ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path],
                error=HostNotPrepared,
            )
            with open(path, encoding="ascii") as file:
                key = file.read()
        for name in place.keys:
            self._put(place, name, key, secret=True)
        return key

    def _request(self, name):
        # The subject is only formal: the controller chooses the names that it signs.
        return run(
            ["openssl", "req", "-new", "-batch", "-subj", "/CN=berth", "-key", self._path(name)], error=HostNotPrepared
        )

    # files

    def _path(self, name):
        return os.path.join(self.pki, name)

    def _read(self, name):
        try:
            with open(self._path(name), encoding="ascii") as file:
                return file.read(MOST)
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise HostNotPrepared("%s cannot be read: %s" % (self._path(name), error))

    def _same(self, names):
        """Return the text of files that must have the same content, empty if they differ."""
        texts = {self._read(name) for name in names}
        return texts.pop() if len(texts) == 1 else ""

    def _rights(self, place, secret):
        """Return (mode, gid): everybody may read certificates, QEMU's group its key, only root libvirt's key."""
        if not secret:
            return 0o644, 0
        return (0o640, self.group) if place.for_qemu else (0o600, 0)

    def _put(self, place, name, text, secret):
        mode, gid = self._rights(place, secret)
        path = self._path(name)
        if self._read(name) == text:
            return
        durable.make_directories(os.path.dirname(path), _mode(os.path.dirname(name)))
        durable.write_at(path, text.encode("ascii"), mode, gid if os.geteuid() == 0 else None)
        self.changed.append(path)


def _mode(name):
    """The mode of a directory below PKI: only root needs to enter that of libvirt's keys."""
    return PRIVATE if os.path.basename(name) == "private" else 0o755


def _check_counts(use, parts):
    """libvirt does not start with one that does not count by the host's clock."""
    if "certificate" not in parts:
        return
    with tempfile.TemporaryDirectory() as scratch:
        files = [os.path.join(scratch, part) for part in ("authority", "certificate")]
        for path in files:
            durable.write_at(path, parts[os.path.basename(path)].encode("ascii"), 0o600)
        why, name = why_not(*files), os.uname().nodename
    if why:
        raise HostNotPrepared(
            "by the clock of %s the new certificate for %s is not valid: %s. Nothing was installed" % (name, use, why),
            hint=host_hints.set_clock(name),
        )
