# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory that all hosts of a lab share, as /srv/shared: a FUSE mount that calls itself a cluster file system.

libvirt refuses to migrate a disk on a plain bind mount ("unsafe migration"); a type from its list of cluster
file systems is taken for shared storage without any flag.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

from .run import command_line_of, is_alive, read_pid, run, wait_for


def _mountpoint(lab):
    return lab.state / "shared.mount"


def _pid(lab):
    pid = read_pid(lab.state / "bindfs.pid")
    return pid if pid and str(_mountpoint(lab)) in command_line_of(pid) else 0


def shared_up(lab):
    lab.shared.mkdir(exist_ok=True)
    _mountpoint(lab).mkdir(exist_ok=True)
    if _pid(lab):
        return
    if os.path.ismount(_mountpoint(lab)):
        run("umount", "-l", _mountpoint(lab))
    server = subprocess.Popen(
        ["bindfs", "-f", "-o", "subtype=glusterfs,allow_other", str(lab.shared), str(_mountpoint(lab))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (lab.state / "bindfs.pid").write_text(str(server.pid))
    wait_for(lambda: os.path.ismount(_mountpoint(lab)) or server.poll() is not None, 10, "the shared directory")


def share_image(lab):
    """The guest image as /srv/shared/images/guest.qcow2 on the hosts."""
    images = lab.shared / "images"
    images.mkdir(exist_ok=True)
    place = images / lab.image.name
    if lab.image.exists() and not (place.exists() and place.stat().st_mtime >= lab.image.stat().st_mtime):
        shutil.copyfile(lab.image, place)


def shared_down(lab):
    if os.path.ismount(_mountpoint(lab)):
        run("umount", "-l", _mountpoint(lab))
    pid = _pid(lab)
    if pid:  # other mount namespaces of the machine may hold copies of the mount: end its server itself
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not is_alive(pid), 5, "end of bindfs")
