# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies disks from host to host without trust between them: NBD over TLS with a pre-shared key that lives for one
move.

The destination opens a fresh file per disk with qemu-nbd, the source writes to it with qemu-img. The controller makes
the key, which is never in an argument list. Ports are open from ``open_targets`` to ``close``. Sizes are in bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

from ...model import host_hints
from ...model.move_errors import TransferFailed
from .. import durable, paths
from ..host.address import why_not
from ..paths import incoming_file
from ..record.store import check_uuid
from ..run import run
from . import watchdog

RUN_DIR = "/run/berth/moves"
USER = "berth"
PID_FILE = "send.pid"  # of the program that copies from this host
PORTS = range(49216, 49344)
ADDRESS = re.compile(r"[A-Za-z0-9.:-]{1,255}\Z", re.ASCII)
KEY = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)


def directory(uuid, *name):
    return os.path.join(RUN_DIR, check_uuid(uuid), *name)


def make_directories(uuid):
    for path in (os.path.dirname(RUN_DIR), RUN_DIR, directory(uuid)):
        os.close(durable.open_directory(path, create=True))


def write_key(uuid, key):
    if not isinstance(key, str) or not KEY.match(key):
        raise TransferFailed("the key of the transfer is not 64 hexadecimal digits")
    make_directories(uuid)
    fd = os.open(directory(uuid, "keys.psk"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, ("%s:%s\n" % (USER, key)).encode())
    finally:
        os.close(fd)


def close(uuid):
    """End all copying for this instance on this host, and remove its ports and key, as far as they exist."""
    try:
        names = os.listdir(directory(uuid))
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(".pid"):
            kill(directory(uuid, name), uuid)
    shutil.rmtree(directory(uuid), ignore_errors=True)


def worked(uuid):
    """Return the CPU time of what copies for this instance on this host. It stands still if nothing arrives."""
    try:
        names = [name for name in os.listdir(directory(uuid)) if name.endswith(".pid")]
        return [watchdog.spent(_pid(directory(uuid, name))) for name in names]
    except (OSError, ValueError):
        return None


def _pid(pid_file):
    with open(pid_file) as file:
        return int(file.read().strip())


def kill(pid_file, uuid):
    """Kill the process that a pid file names, if it really works for this instance."""
    try:
        pid = _pid(pid_file)
        ours = uuid.encode() in _command_line(pid)
    except (OSError, ValueError):
        return
    if not ours:
        return
    os.kill(pid, signal.SIGKILL)
    for _each in range(100):
        if not os.path.exists("/proc/%d" % pid) or _is_zombie(pid):
            return
        time.sleep(0.02)


def _command_line(pid):
    """A program that is just being started has none for a moment."""
    for _each in range(100):
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            line = file.read()
        if line or _is_zombie(pid):
            break
        time.sleep(0.02)
    return line


def _is_zombie(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


# ---- the destination -------------------------------------------------------------------------------------------------


def open_targets(uuid, disks, key, address, attempt):
    """Make fresh files for ``disks`` [{name, path, format, size}], each behind a port. Return [{name, host, port}]."""
    close(uuid)
    targets = []
    with closed_on_failure(uuid):
        write_key(uuid, key)
        for disk in disks:
            path = incoming_file(disk["path"], attempt)
            paths.remove(path)
            make_empty(path, form(disk), disk.get("whole") or disk["size"])
            targets.append({"name": disk["name"], "host": address, "port": serve(uuid, disk, path, address)})
            # The names must survive a power cut too: the source lets go once it has flushed the content.
            paths.sync_directory(os.path.dirname(path))
    return targets


def form(disk):
    """As what a disk is copied: one with snapshots inside as the file that it is."""
    return "raw" if disk.get("whole") else disk["format"]


@contextlib.contextmanager
def closed_on_failure(uuid):
    """Close the ports and remove the key if the block fails: the listener guards only what was opened completely."""
    try:
        yield
    except BaseException:
        close(uuid)
        raise


def make_empty(path, form, size):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if form == "raw":
            os.ftruncate(fd, size)
    finally:
        os.close(fd)
    if form != "raw":
        run(["qemu-img", "create", "-q", "-f", form, "--", path, str(size)], error=TransferFailed)


WRITABLE = ("--discard", "unmap", "--detect-zeroes", "unmap")


def serve(uuid, disk, path, address, how=WRITABLE):
    """Open a port for the file of a disk, and return it. The key is in place."""
    pid_file = directory(uuid, "%s.pid" % disk["name"])
    output = ""
    for port in PORTS:
        if why_not(address, port):
            continue
        command = [
            "qemu-nbd", "--fork", "--persistent", "--shared=4", "--pid-file", pid_file, "--bind", address, "--port",
            str(port),
            "--object", "tls-creds-psk,id=tls0,endpoint=server,dir=%s" % directory(uuid), "--tls-creds", "tls0",
            "--format", form(disk), *how, "--export-name", disk["name"], path,
        ]  # fmt: skip
        # The server continues in the background: it must hold none of our pipes.
        log = directory(uuid, "%s.log" % disk["name"])
        with open(log, "wb") as out:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=watchdog.ENVIRONMENT, check=False
            )
        if done.returncode == 0:
            return port
        with open(log, "rb") as file:
            output = file.read().decode("utf-8", "replace").strip()[-300:]
        if "in use" not in output:
            break
    raise TransferFailed("no port could be opened for %s: %s" % (disk["name"], output or "all are taken"))


def check_address(address, name, hint=None):
    """Raise TransferFailed if the host ``name`` cannot listen on ``address``, where others reach it, on any port."""
    why = why_not(address) if address else "it has no default route, and its name has no address"
    if why:
        raise TransferFailed(
            "%s cannot receive disks at %s, where other hosts would reach it: %s"
            % (name, address or "any address", why),
            hint=hint or host_hints.correct_migration_address(name),
            host=name,
        )


# ---- the source ------------------------------------------------------------------------------------------------------


def bytes_per_second(options):
    """Return the bandwidth in bytes per second from options in MiB; None means no limit."""
    return ((options.get("bandwidth") or 0) << 20) or None


def send(uuid, disks, targets, key, bandwidth=None, rest=None, also=()):
    """Write each disk to its target, read it back for comparison, and flush it there, so that it survives a power cut.
    ``bandwidth`` in bytes/s. Return {bytes, seconds}.

    ``rest``: disk name -> function(disk, target) that copies what is still missing of a disk copied before. ``also``:
    more checks that may end the copy, see watchdog.follow.
    """
    ports = {target["name"]: target for target in targets}
    close(uuid)
    write_key(uuid, key)
    rest = rest or {}
    data = {disk["name"]: 0 if disk["name"] in rest else allocated(disk) for disk in disks}
    progress = Progress(uuid, sum(data.values()))
    try:
        for disk in disks:
            if disk["name"] in rest:
                rest[disk["name"]](disk, ports[disk["name"]])
            else:
                _convert(uuid, disk, ports[disk["name"]], bandwidth, data[disk["name"]], progress, also)
            progress.disk_done(data[disk["name"]])
        progress.note("comparing")
        for disk in disks:
            if disk["name"] not in rest:
                _compare(uuid, disk, ports[disk["name"]], also)
            flush(uuid, disk, ports[disk["name"]])
    finally:
        close(uuid)
    return {"bytes": progress.total, "seconds": round(time.monotonic() - progress.began, 3)}


def allocated(disk):
    """Return the bytes of a disk and its backing image here: about what there is to copy, since holes are skipped."""
    command = ["qemu-img", "info", "-U", "--backing-chain", "--output=json", "-f", disk["format"], "--", disk["path"]]
    return sum(layer["actual-size"] for layer in json.loads(run(command, timeout=60, error=TransferFailed)))


def target_options(uuid, disk, target):
    if not ADDRESS.match(target["host"]):
        raise TransferFailed("the destination's address %r is not valid" % (target["host"],))
    return [
        "--object", "tls-creds-psk,id=tls0,endpoint=client,username=%s,dir=%s" % (USER, directory(uuid)),
    ], "driver=nbd,server.type=inet,server.host=%s,server.port=%d,export=%s,tls-creds=tls0" % (
        target["host"], int(target["port"]), disk["name"],
    )  # fmt: skip


def _convert(uuid, disk, target, bandwidth, data, progress, also):
    credentials, options = target_options(uuid, disk, target)
    command = ["qemu-img", "convert", "-p", "-n", "--target-is-zero"] + credentials
    if bandwidth:
        command += ["-r", str(int(bandwidth))]
    command += ["--image-opts", "--target-image-opts", "--", source_options(disk), options]
    _follow(uuid, command, target, lambda percent: progress.part(data * percent / 100), also)


def _compare(uuid, disk, target, also):
    credentials, options = target_options(uuid, disk, target)
    _follow(
        uuid,
        ["qemu-img", "compare", "-q"] + credentials + ["--image-opts", "--", source_options(disk), options],
        target,
        also=also,
    )


def flush(uuid, disk, target):
    credentials, options = target_options(uuid, disk, target)
    _follow(uuid, ["qemu-io"] + credentials + ["-c", "flush", "--image-opts", options], target)


def _follow(uuid, command, target, on_percent=None, also=()):
    watchdog.follow(command, directory(uuid, PID_FILE), target, on_percent, also)


def source_options(disk):
    """Return the options of a disk on this host: the export of a running guest's disk, else its file."""
    return disk.get("options") or "driver=%s,file.driver=file,file.filename=%s" % (form(disk), disk["path"])


class Progress:
    """How much is copied, in a file that another run may read: {state, bytes, total, percent, rate (bytes/s)}."""

    def __init__(self, uuid, total):
        self.uuid, self.total, self.done = uuid, total, 0
        self.began = time.monotonic()
        self.written = 0.0
        self.note("copying")

    def disk_done(self, size):
        self.done += size
        self.note("copying")

    def part(self, size):
        now = time.monotonic()
        if now - self.written >= 0.5:
            self.note("copying", self.done + int(size))

    def note(self, state, copied=None):
        copied = self.done if copied is None else copied
        self.written = time.monotonic()
        seconds = max(self.written - self.began, 0.001)
        write_progress(self.uuid, state, copied, self.total, copied / seconds)


def write_progress(uuid, state, copied, total, rate, **more):
    """Write how far it is, for people: the copy does not fail over it, such as where another run ends at the same time."""
    percent = round(100.0 * copied / total, 1) if total else 100.0
    text = json.dumps({"state": state, "bytes": copied, "total": total, "percent": percent, "rate": int(rate), **more})
    temporary = directory(uuid, "progress.tmp")
    with contextlib.suppress(OSError):
        with open(temporary, "w") as file:
            file.write(text)
        os.replace(temporary, directory(uuid, "progress.json"))


def read_progress(uuid):
    """Return how far the copy from this host is, or None if there is none."""
    try:
        with open(directory(uuid, "progress.json")) as file:
            return json.loads(file.read(4096))
    except (OSError, ValueError):
        return None
