# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bare Debian root for the reader, and three hosts with libvirt: as long as `make walk` runs. Needs root.

What is made once is kept in .cache/walk: the root (a minimal Debian 12), and the image (the lab's guest with Debian's
Python and an ssh server, for Debian's cloud image takes minutes to boot without KVM).
"""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(HERE.parent)]

from client import LabClient, run  # noqa: E402

KEPT = ROOT / ".cache" / "walk"
IMAGE = "debian-12-genericcloud-amd64.qcow2"
MIRROR = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
IN_GUEST = "dropbear-bin,openssh-sftp-server,passwd,python3"


def debootstrap(name, *options):
    """A Debian 12 in .cache/walk/NAME -> its path."""
    root = KEPT / name
    made = KEPT / (name + ".made")
    if not made.exists():
        shutil.rmtree(root, ignore_errors=True)
        KEPT.mkdir(parents=True, exist_ok=True)
        mirror = next(line for line in run(MIRROR, check=True).stdout.split() if line.rstrip("/").endswith("/debian"))
        run(["mmdebstrap", "--mode=root", "--quiet", *options, "bookworm", root, mirror], check=True)
        made.touch()
    return root


@pytest.fixture(scope="session")
def image():
    """The directory with the image, and the file of its checksum, as Debian publishes them."""
    stamp = KEPT / "image.made"
    made_of = run(["sha256sum", ROOT / "lab" / "image", *sorted((ROOT / "lab" / "guest").iterdir())], check=True).stdout
    if not stamp.exists() or stamp.read_text() != made_of:
        user = "--customize-hook=chroot $1 useradd -m -s /bin/bash debian"
        tree = debootstrap("guest", "--variant=essential", "--include=" + IN_GUEST, user)
        run([ROOT / "lab" / "image", KEPT / "image", tree], check=True)
        (KEPT / "image" / "guest.qcow2").rename(KEPT / "image" / IMAGE)
        sums = run(["sh", "-c", "cd %s && sha512sum %s" % (KEPT / "image", IMAGE)], check=True).stdout
        (KEPT / "image" / "SHA512SUMS").write_text(sums)
        stamp.write_text(made_of)
    return KEPT / "image"


@pytest.fixture(scope="session")
def mirror(image):
    """The image by HTTP -> the port."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(image))
    server = http.server.ThreadingHTTPServer(("", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@pytest.fixture(scope="session")
def lab():
    """Hosts called kvm1, kvm2 and kvm3, that berth has not been on."""
    lab = LabClient("kvm")
    lab.up(3, "cpus=4,mem=8192,disk=60G")
    lab.compile_modules_each_run()
    yield lab
    lab.down()


@pytest.fixture
def reader(lab, tmp_path):
    """A bare Debian whose root has a checkout, knows the hosts, and has the key that they take -> its directory."""
    bare = debootstrap("bare", "--variant=minbase", "--include=ca-certificates")
    root = tmp_path / "root"
    subprocess.run(["cp", "--archive", bare, root], check=True)
    for path in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(path, str(root) + path)
    shutil.copy(lab.state / "etc-hosts", root / "etc" / "hosts")
    ssh = root / "root" / ".ssh"
    ssh.mkdir(mode=0o700)
    for name in ("id_ed25519", "id_ed25519.pub", "known_hosts"):
        shutil.copy(lab.state / "ssh" / name, ssh / name)
    run(["git", "clone", "--quiet", ROOT, root / "root" / "berth.kvm"], check=True)
    yield root
    shutil.rmtree(root)
