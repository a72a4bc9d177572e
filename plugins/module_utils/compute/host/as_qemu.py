# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What QEMU can reach on this host, tried as the user that libvirt lets it run as. The mode of a directory depends on the umask
of whoever made it, and QEMU cannot use a file in a directory that it may not enter. SELinux and AppArmor are not tried."""

from __future__ import annotations

import os
import pwd
from typing import Dict, Iterable, List, Sequence, Tuple
from xml.etree import ElementTree

from ...model import host_hints
from ..errors import HostNotPrepared
from ..run import run
from .certificates import PKI, PLACES

TIMEOUT = 20  # s
# Prints each path that the user may not enter (x) or read (r): pairs of both.
TRY = """
while [ "$#" -gt 1 ]; do
  if [ "$1" = x ]; then [ -x "$2" ]; else [ -r "$2" ]; fi || printf '%s\\n' "$2"
  shift 2
done
"""
User = Tuple[int, int]


def user(capabilities_xml: str) -> User:
    """Return the ids (user, group) that QEMU runs as, from libvirt's own label; root's if there is none."""
    label = ElementTree.fromstring(capabilities_xml).findtext("host/secmodel[model='dac']/baselabel") or "+0:+0"
    uid, _colon, gid = label.rpartition(":")
    return int(uid.lstrip("+")), int(gid.lstrip("+"))


def certificates(pki: str = PKI) -> List[str]:
    """Return the files that QEMU reads for a live migration, as far as they are there."""
    place = PLACES["qemu"]
    return [path for path in (*place.paths(pki), os.path.join(pki, place.revoked)) if os.path.lexists(path)]


def closed(who: User, files: Iterable[str] = (), directories: Iterable[str] = ()) -> List[str]:
    """Return the first path that keeps the user out, on the way to each of the files to read and directories to enter."""
    if who[0] == 0:
        return []
    ways = [[*_above(path), ("r", path)] for path in files]
    ways += [[*_above(path), ("x", path)] for path in directories]
    tried = dict.fromkeys(step for way in ways for step in way)
    shut = set(_try(who, [part for step in tried for part in step]).splitlines()) if tried else set()
    first: Dict[str, None] = {}
    for way in ways:
        first.update(dict.fromkeys([path for _kind, path in way if path in shut][:1]))
    return list(first)


def _above(path: str) -> List[Tuple[str, str]]:
    above = os.path.dirname(path)
    return [] if above == path else [*_above(above), ("x", above)]


def _try(who: User, steps: Sequence[str]) -> str:
    try:
        pwd.getpwuid(who[0])
        groups = "--init-groups"
    except KeyError:
        groups = "--clear-groups"
    ids = ["--reuid=%d" % who[0], "--regid=%d" % who[1], groups]
    return run(["setpriv", *ids, "--", "sh", "-c", TRY, "sh", *steps], timeout=TIMEOUT, error=HostNotPrepared)


def name(who: User) -> str:
    try:
        return pwd.getpwuid(who[0]).pw_name
    except KeyError:
        return "uid %d" % who[0]


def told(who: User, path: str) -> str:
    return "QEMU, which runs as %s, %s %s" % (
        name(who),
        "may not enter" if os.path.isdir(path) else "cannot read",
        path,
    )


def check(who: User, files: Iterable[str] = (), directories: Iterable[str] = ()) -> None:
    """Raise HostNotPrepared if something keeps QEMU out."""
    shut = closed(who, files, directories)
    if shut:
        inner = [path for path in shut if os.path.isdir(path)]
        hint = host_hints.let_qemu_in(
            os.uname().nodename, str(who[0]), inner, [path for path in shut if path not in inner]
        )
        raise HostNotPrepared("; ".join(told(who, path) for path in shut), hint=hint)
