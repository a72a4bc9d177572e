# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot gate: libvirt's hook lets a managed guest start only with a permit of this boot of the host.

So neither autostart, nor a host that comes back after its guests moved away, nor a start by hand revives a guest that
must not run here by its record. A guest that a migration is to bring has a permit of its own, with which only a migration
starts it. Guests that berth did not make pass, at the cost of one shell.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time

from ...model import host_hints
from .. import durable
from ..errors import BootGateMissing, StateUnsafe
from ..host import boot_time
from ..record.store import check_uuid
from .terms import NAMESPACE

HOOK = "/etc/libvirt/hooks/qemu.d/berth"
RUN_DIR = "/run/berth"
PERMITS = "permits"
ARRIVING = "arriving"  # in a permit: for a migration alone
ASKED = ".asked"  # ends the name of the note that libvirt has asked for such a guest
TRIED = ".tried"  # ends the name of a file that is written to see whether a permit could be
RESTART = "restart-libvirtd"
TEMPORARY = ".berth.tmp"
DAEMONS = ("libvirtd", "virtqemud")  # those that start guests
LISTENER = "virtproxyd"  # listens for other hosts where there is a daemon for each driver
TICK = os.sysconf("SC_CLK_TCK")  # ticks per second in /proc

HOOK_TEXT = r"""#!/bin/sh
# berth.kvm: a managed guest starts only with a permit of this boot. It must not call libvirt, which waits for it.
case $2 in prepare | migrate) ;; *) exit 0 ;; esac
definition=$(cat)
# by its uuid and its files, since anybody can rename a domain and remove its metadata
uuid=$(printf '%%s\n' "$definition" | sed -n 's:^ *<uuid>\([0-9a-f-]*\)</uuid>$:\1:p' | head -n 1)
case $definition in
  *'%(namespace)s'* | *"/instances/$uuid/"* | *"/$uuid-console.log'"*) ;;
  *) exit 0 ;;
esac
# A guest that a migration brings is asked for twice, first with migrate; any other start once.
if read -r permit way < '%(permits)s/'"$uuid" && read -r boot < %(boot_id)s && [ "$permit" = "$boot" ]; then
  case "$2 $way" in
    'prepare ') exit 0 ;;
    'migrate %(arriving)s') : > '%(permits)s/'"$uuid"'%(asked)s' ;;
    'prepare %(arriving)s') rm '%(permits)s/'"$uuid"'%(asked)s' && exit 0 ;;
  esac
fi 2>/dev/null
[ "$2" = prepare ] || exit 0
whose=$(printf '%%s\n' "$definition" | sed -n 's|^ *<berth:uuid>\([0-9a-f-]*\)</berth:uuid>$|\1|p' | head -n 1)
if [ -n "$whose" ] && [ "$whose" != "$uuid" ]; then
  echo "berth.kvm: domain $uuid is a copy of instance $whose, so it was not started. To make it a guest of its own," \
    "give it disks and MAC addresses of its own and remove berth:instance from its metadata with virsh edit" >&2
else
  echo "berth.kvm: this host has no permit to start instance $uuid, by hand or by a virsh migrate to here. To start it," \
    "use the playbook berth.kvm.start; to move it, berth.kvm.live_migrate if it runs, berth.kvm.migrate if it is off" >&2
fi
exit 1
""" % {
    "namespace": NAMESPACE,
    "permits": os.path.join(RUN_DIR, PERMITS),
    "boot_id": boot_time.BOOT_ID,
    "arriving": ARRIVING,
    "asked": ASKED,
}
# SHA-256 of earlier hooks that differ from this one only in what they say.
KNOW_ARRIVALS = ("0c555103c5f5af0daca4f596a117931e406ee440e14e3cb084e3b7ab67d126c0",)
# Of all earlier hooks: they knew guests by their names, then by the metadata alone, then no permit for a migration
# alone. prepare_hosts replaces them; until then guests start as before.
FORMER = (
    *KNOW_ARRIVALS,
    "e39ca6917150f7fb6fae1c97a4e5e6df721e2f1ae84416c1c02ca6f352d8a0db",
    "489ee779dd58fdd7e3c65cc173b3831a1899f45759682c0982ecfb2dc68d7712",
    "161fb1e302d23281c9fab6d5d65db6187630685ba484b30a6f1fe92e9fadbf29",
)


def _open_permits(run_dir):
    top = durable.open_directory(run_dir, create=True)
    try:
        return durable.open_directory(PERMITS, create=True, dir_fd=top)
    finally:
        os.close(top)


def permit(uuid, run_dir=RUN_DIR):
    """Let the guest start on this host until the host's next boot."""
    _permit(uuid, run_dir, boot_time.boot_id())


def permit_arrival(uuid, run_dir=RUN_DIR, path=HOOK):
    """Let a migration start the guest on this host, and nobody else. Most earlier hooks do not know the difference."""
    text = _text(path)
    way = " " + ARRIVING if text == HOOK_TEXT or _digest(text) in KNOW_ARRIVALS else ""
    _permit(uuid, run_dir, boot_time.boot_id() + way)


def _permit(uuid, run_dir, text):
    permits = _open_permits(run_dir)
    try:
        durable.remove(permits, check_uuid(uuid) + ASKED)
        durable.write(permits, uuid, (text + "\n").encode())
    finally:
        os.close(permits)


def check_writable(uuid, run_dir=RUN_DIR):
    """Raise StateNotWritten if no permit could be given, before a guest is stopped that is to start here."""
    permits = _open_permits(run_dir)
    try:
        durable.write(permits, check_uuid(uuid) + TRIED, b"")
        durable.remove(permits, uuid + TRIED)
    finally:
        os.close(permits)


def revoke(uuid, run_dir=RUN_DIR):
    """Withdraw the permit. Return whether there was one."""
    permits = _open_permits(run_dir)
    try:
        allowed = durable.read(permits, check_uuid(uuid)) is not None
        durable.remove(permits, uuid)
        durable.remove(permits, uuid + ASKED)
    finally:
        os.close(permits)
    return allowed


def is_permitted(uuid, run_dir=RUN_DIR):
    permits = _open_permits(run_dir)
    try:
        return durable.read(permits, check_uuid(uuid)) == (boot_time.boot_id() + "\n").encode()
    finally:
        os.close(permits)


def is_installed(path=HOOK):
    """Whether the hook exists, from this version or an earlier one."""
    return _text(path) == HOOK_TEXT or is_former(path)


def is_former(path=HOOK):
    """Whether the hook is from an earlier version."""
    return _digest(_text(path)) in FORMER


def _digest(text):
    return hashlib.sha256((text or "").encode()).hexdigest()


def _text(path):
    """Return the hook's text, or None if it is not executable or others may change it."""
    try:
        status = os.lstat(path)
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except OSError:
        return None
    ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return text if ours and stat.S_IMODE(status.st_mode) == 0o755 else None


def is_read(path=HOOK):
    """Whether every running libvirt was started after the hook was installed: only then does it call hooks at all.

    The inode's change time says when the file was put there, by whatever means: a copy cannot keep an older one.
    """
    came = os.lstat(path).st_ctime
    booted = time.time() - boot_time.uptime()
    return all(booted + (int(daemon.split(":")[1]) + 1) / TICK >= came for daemon in daemons())


def is_in_force(path=HOOK):
    """Whether this version's hook is installed and libvirt calls it."""
    return _text(path) == HOOK_TEXT and is_read(path)


def check(host_name, path=HOOK, run_dir=RUN_DIR):
    """Raise BootGateMissing if anybody could later start a guest that is started now, with or without a permit."""
    if not is_installed(path):
        what = "is missing or is not as it was installed (%s)" % path
    elif to_restart(run_dir) or not is_read(path):
        what = (
            "may be unknown to libvirt, which has not been restarted since it was prepared, or the clock was set back"
        )
    else:
        return
    raise BootGateMissing(
        "the boot gate of %s %s: nothing was started" % (host_name, what), hint=host_hints.prepare_host(host_name)
    )


def install(path=HOOK, run_dir=RUN_DIR):
    """Install the hook. Return whether it was changed.

    libvirt looks for hooks when it starts. A note below /run lists the daemons that still run without it, in case this
    run ends before the restart. A hook that libvirt has not read is written again: its time is then before the restart,
    even if the clock was wrong.
    """
    if is_in_force(path):
        return False
    directory = os.path.dirname(path)
    durable.make_directories(directory, 0o755)
    if os.path.islink(path):
        raise StateUnsafe("%s is a link" % path)
    note_restart(run_dir)
    durable.write_at(path, HOOK_TEXT.encode(), 0o755, temporary=os.path.join(os.pardir, TEMPORARY))
    return True


def temporary(path=HOOK):
    """Return the path of a hook that is being written: elsewhere, since libvirt runs all files beside the hook."""
    return os.path.join(os.path.dirname(os.path.dirname(path)), TEMPORARY)


def note_restart(run_dir=RUN_DIR):
    """Note which daemons run without what was just changed: they read it only when they start."""
    top = durable.open_directory(run_dir, create=True)
    try:
        durable.write(top, RESTART, "\n".join(sorted(running())).encode())
    finally:
        os.close(top)


def to_restart(run_dir=RUN_DIR):
    """Return the services, named as their daemons, that run since before the hook, a certificate or the listen address was
    changed."""
    top = durable.open_directory(run_dir, create=True)
    try:
        noted, now = (durable.read(top, RESTART) or b"").decode().split(), running()
        still = sorted({now[daemon] for daemon in noted if daemon in now})
        if noted and not still:
            durable.remove(top, RESTART)
        return still
    finally:
        os.close(top)


def services():
    """Return the services of all daemons that run now."""
    return sorted(set(running().values()))


def daemons():
    """Return every running libvirt daemon that starts guests, as "pid:start time"."""
    return sorted(daemon for daemon, name in running().items() if name in DAEMONS)


def running(proc="/proc"):
    """Return {"pid:start time": daemon}. Those of other users serve their own sessions and start no guest of ours."""
    found = {}
    for pid in filter(str.isdigit, os.listdir(proc)):
        path = os.path.join(proc, pid)
        try:
            with open(os.path.join(path, "stat"), encoding="ascii", errors="replace") as stream:
                text = stream.read()
            is_ours = os.stat(path).st_uid == os.geteuid()
        except OSError:
            continue
        command, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        if is_ours and command in (*DAEMONS, LISTENER):
            found["%s:%s" % (pid, fields[19])] = command
    return found
