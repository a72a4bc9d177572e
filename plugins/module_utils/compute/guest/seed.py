# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NoCloud seed of an instance, which cloud-init reads at first boot. It may contain secrets, so it is only written
to a file that only its owner may read.
"""

from __future__ import annotations

import json
import os
import struct
import uuid as uuids

from ...model.errors import InvalidInput
from .. import paths

# A small writer of ISO 9660 images with Joliet names: a few files in the root directory.
#
# It exists because a stock libvirt host has no program for this (neither libvirt-daemon-system nor qemu-utils depends
# on genisoimage or xorriso), and cloud-init's NoCloud reads it on every system. ECMA-119; Joliet is a second directory
# with names in UTF-16, which keeps lower case. The same files give the same bytes: the image has no time stamp.
ISO_SECTOR = 2048
SYSTEM_AREA = 16
DIRECTORY_FLAG = 2
JOLIET_LEVEL_3 = b"%/E"


def _both(number, size):
    """Return a number in both byte orders, as ECMA-119 7.2.3 and 7.3.3 require."""
    code = {2: "H", 4: "I"}[size]
    return struct.pack("<" + code, number) + struct.pack(">" + code, number)


def _sectors(length):
    return -(-length // ISO_SECTOR)


def _padded(data):
    return data + b"\0" * (_sectors(len(data)) * ISO_SECTOR - len(data))


def _entry(name, location, length, flags=0):
    """Return a directory record (ECMA-119 9.1)."""
    body = b"".join(
        [
            b"\0",
            _both(location, 4),
            _both(length, 4),
            b"\0" * 7,
            struct.pack("<BBB", flags, 0, 0),
            _both(1, 2),
            struct.pack("<B", len(name)),
            name,
        ]
    )
    body += b"\0" * ((len(body) + 1) % 2)
    return struct.pack("<B", len(body) + 1) + body


def _directory(location, files):
    """Return the root directory: itself, its parent (itself), the files [(encoded name, sector, length)] by name."""
    own = [_entry(dots, location, ISO_SECTOR, DIRECTORY_FLAG) for dots in (b"\0", b"\1")]
    data = b"".join(own + [_entry(*file) for file in sorted(files)])
    if len(data) > ISO_SECTOR:
        raise ValueError("more files than one directory sector holds")
    return _padded(data)


def _path_table(location, order):
    return _padded(struct.pack(order + "BBIH", 1, 0, location, 1) + b"\0\0")


def _descriptor(kind, label, total, tables, root, escape=b""):
    """Return a volume descriptor (ECMA-119 8.4): kind 1 is the primary one, 2 with an escape sequence Joliet's."""
    text = (lambda word: word.encode("utf-16-be")) if escape else (lambda word: word.encode("ascii"))
    space = text(" ")

    def field(value, length):
        return (text(value) + space * length)[: length // len(space) * len(space)].ljust(length, b"\0")

    no_time = b"0" * 16 + b"\0"
    data = b"".join(
        [
            struct.pack("<B5sBB", kind, b"CD001", 1, 0),
            field("", 32),
            field(label, 32),
            b"\0" * 8,
            _both(total, 4),
            escape.ljust(32, b"\0"),
            _both(1, 2) + _both(1, 2) + _both(ISO_SECTOR, 2),
            _both(10, 4),
            struct.pack("<II", tables[0], 0) + struct.pack(">II", tables[1], 0),
            _entry(b"\0", root, ISO_SECTOR, DIRECTORY_FLAG),
            field("", 128) * 4,
            field("", 37) * 3,
            no_time * 4,
            struct.pack("<BB", 1, 0),
        ]
    )
    return _padded(data)


def iso_image(label, files):
    """Return the bytes of an ISO image with volume ``label`` and ``files`` {name: bytes}.

    A name has at most 30 characters of a-z, 0-9, - and . (a reader without Joliet sees upper case).
    """
    tables, roots = (19, 20, 21, 22), (23, 24)
    at = 25
    places, content = {}, []
    for name, data in sorted(files.items()):
        places[name] = (at, len(data))
        content.append(_padded(data))
        at += _sectors(len(data))
    plain = [((name.upper() + ";1").encode("ascii"), *places[name]) for name in files]
    joliet = [((name + ";1").encode("utf-16-be"), *places[name]) for name in files]
    parts = [
        b"\0" * SYSTEM_AREA * ISO_SECTOR,
        _descriptor(1, label, at, tables[:2], roots[0]),
        _descriptor(2, label, at, tables[2:], roots[1], JOLIET_LEVEL_3),
        _padded(struct.pack("<B5sB", 255, b"CD001", 1)),
        *(_path_table(root, order) for root in roots for order in "<>"),
        _directory(roots[0], plain),
        _directory(roots[1], joliet),
        *content,
    ]
    return b"".join(parts)


FILE = paths.SEED
IGNITION = paths.IGNITION
SECTOR = 512  # disks are copied in whole ones
LABEL = "cidata"
# The argument spec of a seed, for the modules that build.
ARGUMENTS = {
    "hostname": {"type": "str", "required": True},
    "fqdn": {"type": "str"},
    "ssh_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "user_data": {"type": "str", "no_log": True},
    "network_config": {"type": "dict"},
    "metadata": {"type": "dict"},
    "cloud_config": {"type": "str", "no_log": True},
}


# name of a disk -> its line of fstab, by label: device names depend on buses and order.
# The file system grows at the boot after a resize; a guest without systemd ignores that option.
MOUNTS = {
    "ephemeral0": ["/dev/disk/by-label/ephemeral0", "/mnt", "auto", "defaults,nofail,x-systemd.growfs", "0", "2"],
    "swap": ["/dev/disk/by-label/swap", "none", "swap", "sw,nofail", "0", "0"],
}


def new_instance_id(record):
    """Return the id by which cloud-init sees that an instance was made anew: another for each claim that becomes one. So a
    volume that it boots from gets the new keys and addresses, and a build that goes on does not look new."""
    return str(uuids.uuid5(uuids.UUID(record.uuid), record.token))


def next_instance_id(record):
    """Return the id for a rebuild: another one than the instance has had."""
    return str(uuids.uuid5(uuids.UUID(record.uuid), "%s rebuilt" % instance_id(record)))


def instance_id(record):
    """Return the id that the record has had since it was built, whatever moved or mended it: another one would run all of
    cloud-init again. Guests of older versions have their uuid."""
    return record.spec.get("instance_id") or record.uuid


def documents(own_id, seed, disks=()):
    """Return the files of the seed: {name: bytes}. They are JSON, which is YAML and needs no library on the host.

    ``own_id`` is cloud-init's instance-id. ``disks``: the names of the guest's disks. The vendor-data mounts them, and has
    what else the request asks of cloud-init (``cloud_config``). cloud-init keeps it apart from the user data, which
    overrides it.
    """
    unknown = sorted(set(seed) - set(ARGUMENTS))
    if unknown:
        raise InvalidInput("seed.%s" % unknown[0], "...", "one of " + ", ".join(ARGUMENTS))
    meta_data = ["instance-id: %s" % own_id, "local-hostname: %s" % seed["hostname"]]
    if seed.get("ssh_keys"):
        meta_data.append("public-keys: %s" % yaml_text(list(seed["ssh_keys"])))
    if seed.get("metadata"):
        meta_data.append("berth-metadata: %s" % yaml_text(seed["metadata"]))
    files = {
        "meta-data": "\n".join(meta_data) + "\n",
        "user-data": seed.get("user_data") or "#cloud-config\n{}\n",
    }
    if seed.get("network_config"):
        files["network-config"] = json.dumps(seed["network_config"], indent=1) + "\n"
    mounts = [MOUNTS[name] for name in disks if name in MOUNTS]
    vendor = {key: value for key, value in (("fqdn", seed.get("fqdn")), ("mounts", mounts)) if value}
    config = {**vendor, **json.loads(seed.get("cloud_config") or "{}")}
    if config:
        files["vendor-data"] = "#cloud-config\n%s\n" % yaml_text(config, indent=1)
    return {name: text.encode("utf-8") for name, text in files.items()}


def yaml_text(value, indent=None):
    """Return JSON that YAML parsers read alike: JSON's escapes for one character can be two characters in YAML."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(
        char if char == "\n" or char.isprintable() or ord(char) > 0xFFFF else "\\u%04x" % ord(char) for char in text
    )


def files(pool_path, record, seed, disks=()):
    """Return {path: bytes} of the seed's ISO image; ``disks`` as for documents(). Ignition reads no such disk, but a file that
    QEMU shows to it."""
    image = iso_image(LABEL, documents(instance_id(record), seed, disks))
    found = {paths.instance(pool_path, record.uuid, FILE): image}
    if record.spec.get("ignition"):
        text = (seed.get("user_data") or "").encode("utf-8")
        found[paths.instance(pool_path, record.uuid, IGNITION)] = text + b"\n" * (-len(text) % SECTOR)
    return found


def build(pool_path, record, seed, disks=()):
    """Write these files, readable by their owner only."""
    for path, data in files(pool_path, record, seed, disks).items():
        _write(path, data)
    return paths.instance(pool_path, record.uuid, FILE)


def _write(path, data):
    temporary = path + ".tmp"
    paths.remove(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as target:
        target.write(data)
    paths.publish(temporary, path)
