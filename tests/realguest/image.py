#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian 12 cloud image, made of Debian's packages as Debian's own is: cloud-init, netplan, openssh, grub.

image.py [DIRECTORY] gives, as root, DIRECTORY/debian12-signed.qcow2 and debian12-unsigned.qcow2 (2 GiB each). Both boot with
BIOS and with UEFI; with UEFI the first by shim and the signed grub, the other by a grub that nobody signed. What is
there and made by this very file is not made again; delete the directory for newer packages. Needs mmdebstrap, mtools, dosfstools.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / ".cache" / "realguest"
LOADERS = ("signed", "unsigned")
# The kernel of Debian's "generic" image; the one of "genericcloud" knows no AHCI, and so no SATA disk or CD-ROM.
PACKAGES = """
systemd-sysv udev dbus kmod procps less sudo ca-certificates iproute2 iputils-ping python3 linux-image-amd64
cloud-init cloud-guest-utils netplan.io systemd-resolved systemd-timesyncd openssh-server
e2fsprogs dosfstools fdisk gdisk grub2-common grub-pc-bin grub-efi-amd64-bin grub-efi-amd64-signed shim-signed
""".split()

# Sectors of 512 bytes. Debian's images number the partitions so: the root is the first and stands last, so that it can grow.
MIB = 2048
SIZE = 2048 * MIB
BIOS, ESP, ROOT = (1 * MIB, 3 * MIB), (4 * MIB, 64 * MIB), (128 * MIB, SIZE - 129 * MIB)
PARTITIONS = """label: gpt
p14 : start=%d, size=%d, type=21686148-6449-6E6F-744E-656564454649
p15 : start=%d, size=%d, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
p1 : start=%d, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709
""" % (*BIOS, *ESP, *ROOT)

# What each grub begins with: it finds the root by its label and goes on with the configuration there.
FIND_ROOT = "search.fs_label cloudroot root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
MODULES = "part_gpt ext2 normal configfile linux search search_label serial terminal echo".split()
MENU = """set timeout=0
serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
search --no-floppy --label cloudroot --set=root
menuentry 'Debian 12' {{
  linux /boot/{kernel} root=LABEL=cloudroot ro console=tty0 console=ttyS0,115200
  initrd /boot/{initrd}
}}
"""
FSTAB = """LABEL=cloudroot / ext4 rw,discard,errors=remount-ro 0 1
LABEL=CLOUDESP /boot/efi vfat umask=0077,nofail 0 1
"""


def run(*argv, text=None):
    print("image:", " ".join(map(str, argv))[:110], flush=True)
    subprocess.run([str(word) for word in argv], check=True, input=text, text=True)


def output(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def mirror():
    """The address that this machine has Debian's packages from."""
    for line in output("apt-get", "indextargets", "--format", "$(SUITE) $(REPO_URI)").splitlines():
        suite, address = line.split()
        if address.rstrip("/").endswith("/debian"):
            return address
    raise SystemExit("image: apt knows no mirror of Debian (.../debian); run this on Debian")


def make_root(root):
    """The file system of Debian 12 as the packages leave it."""
    no_docs = ["--dpkgopt=path-exclude=/usr/share/%s/*" % name for name in ("man", "doc", "locale")]
    options = ["--mode=root", "--variant=minbase", '--aptopt=Apt::Install-Recommends "false"', *no_docs]
    run("mmdebstrap", *options, "--include=" + ",".join(PACKAGES), "bookworm", root, mirror())


def make_it_nobodys(root):
    """What must differ from guest to guest is left to its first boot, and what boots it is written."""
    (root / "etc/fstab").write_text(FSTAB)
    (root / "etc/machine-id").write_text("")
    (root / "etc/default/locale").write_text("LANG=C.UTF-8\n")  # else cloud-init tries one that is not there
    for path in [root / "etc/hostname", root / "var/lib/dbus/machine-id", *root.glob("etc/ssh/ssh_host_*")]:
        path.unlink(missing_ok=True)
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    resolv.symlink_to("/run/systemd/resolve/stub-resolv.conf")
    for name in ("boot/efi", "boot/grub"):
        (root / name).mkdir(exist_ok=True)
    kernel = next(iter(root.glob("boot/vmlinuz-*"))).name
    menu = MENU.format(kernel=kernel, initrd=kernel.replace("vmlinuz", "initrd.img"))
    (root / "boot/grub/grub.cfg").write_text(menu)


def make_grub(root, platform, *modules):
    """The bytes of a grub of this platform, made by the image's own tools."""
    (root / "tmp/find-root.cfg").write_text(FIND_ROOT)
    named = ["-O", platform, "-p", "/boot/grub", "-c", "/tmp/find-root.cfg", "-o", "/tmp/grub"]
    run("chroot", root, "grub-mkimage", *named, *MODULES, *modules)
    made = (root / "tmp/grub").read_bytes()
    for name in ("grub", "find-root.cfg"):
        (root / "tmp" / name).unlink()
    return made


def put_bios_loader(disk, root):
    """grub's first stage into the first sector, the rest into its partition: what grub-install does to a real disk.

    The first stage has the sector of the second at 0x5c. The second begins with a sector that ends in one entry of a list:
    from which sector the rest is read, how many, and to which segment.
    """
    first = bytearray((root / "usr/lib/grub/i386-pc/boot.img").read_bytes())
    second = bytearray(make_grub(root, "i386-pc", "biosdisk"))
    second += b"\0" * (-len(second) % 512)
    struct.pack_into("<Q", first, 0x5C, BIOS[0])
    struct.pack_into("<QHH", second, 512 - 12, BIOS[0] + 1, len(second) // 512 - 1, 0x820)
    first[0x66:0x68] = b"\x90\x90"  # else the disk that the BIOS names is not believed
    with open(disk, "r+b") as stream:
        table = stream.read(512)[0x1B8:]  # the partition table goes on behind the code
        stream.seek(0)
        stream.write(bytes(first[:0x1B8]) + table)
        stream.seek(BIOS[0] * 512)
        stream.write(second)


def loader_files(root, loader):
    """{path on the EFI partition: content} of what UEFI starts."""
    if loader == "unsigned":
        return {"EFI/BOOT/BOOTX64.EFI": make_grub(root, "x86_64-efi")}
    signed = (root / "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed").read_bytes()
    shim = (root / "usr/lib/shim/shimx64.efi.signed").read_bytes()
    return {
        "EFI/BOOT/BOOTX64.EFI": shim,
        "EFI/BOOT/grubx64.efi": signed,
        "EFI/debian/grub.cfg": FIND_ROOT.encode(),  # the place that is built into the signed grub
    }


def put_esp(disk, root, loader, work):
    partition = work / "esp"
    partition.unlink(missing_ok=True)
    run("mkfs.vfat", "-C", "-n", "CLOUDESP", partition, ESP[1] // 2)
    run("mmd", "-i", partition, "::EFI", "::EFI/BOOT", "::EFI/debian")
    for path, content in loader_files(root, loader).items():
        (work / "file").write_bytes(content)
        run("mcopy", "-i", partition, work / "file", "::" + path)
    with open(disk, "r+b") as stream:
        stream.seek(ESP[0] * 512)
        stream.write(partition.read_bytes())


def make_disk(disk, root):
    disk.unlink(missing_ok=True)
    with open(disk, "wb") as stream:
        stream.truncate(SIZE * 512)
    run("sfdisk", "-q", disk, text=PARTITIONS)
    place = "offset=%d" % (ROOT[0] * 512)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", "cloudroot", "-E", place, "-d", root, disk, "%dk" % (ROOT[1] // 2))
    put_bios_loader(disk, root)


def publish(disk, path):
    """The compressed image, and its checksum beside it as catalogs want it."""
    run("qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", disk, str(path) + ".new")
    with open(str(path) + ".new", "rb") as stream:
        checksum = hashlib.sha256(stream.read()).hexdigest()
    Path(str(path) + ".sha256").write_text(checksum + "\n")
    os.replace(str(path) + ".new", path)


def is_made(directory, stamp):
    made = directory / "stamp"
    images = [directory / ("debian12-%s.qcow2" % loader) for loader in LOADERS]
    return made.exists() and made.read_text() == stamp and all(path.exists() for path in images)


def make(directory=DIRECTORY):
    """Both images in ``directory``, unless they are there already."""
    stamp = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if is_made(directory, stamp):
        return
    missing = [
        name
        for name in ("mmdebstrap", "mcopy", "mkfs.vfat")
        if not shutil.which(name, path=os.defpath + ":/usr/sbin:/sbin")
    ]
    if missing or os.geteuid():
        raise SystemExit(
            "image: run as root, with the packages mmdebstrap, mtools and dosfstools (missing: %s)" % missing
        )
    work = directory / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    root, disk = work / "root", work / "disk"
    make_root(root)
    make_it_nobodys(root)
    make_disk(disk, root)
    for loader in LOADERS:
        put_esp(disk, root, loader, work)
        publish(disk, directory / ("debian12-%s.qcow2" % loader))
    shutil.rmtree(work)
    (directory / "stamp").write_text(stamp)


if __name__ == "__main__":
    make(*(Path(word).resolve() for word in sys.argv[1:]))
