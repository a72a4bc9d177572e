# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NoCloud seed of an instance, which cloud-init reads at first boot. It may contain secrets, so it is only written
to a file that only its owner may read."""

from __future__ import annotations

import json
import os
import uuid as uuids

from ...model.errors import InvalidInput
from .. import paths
from . import iso9660

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


def build(pool_path, record, seed, disks=()):
    """Write the seed's ISO image, readable by its owner only; ``disks`` as for documents(). Ignition reads no such disk,
    but a file that QEMU shows to it."""
    path = paths.instance(pool_path, record.uuid, FILE)
    _write(path, iso9660.image(LABEL, documents(instance_id(record), seed, disks)))
    if record.spec.get("ignition"):
        text = (seed.get("user_data") or "").encode("utf-8")
        _write(paths.instance(pool_path, record.uuid, IGNITION), text + b"\n" * (-len(text) % SECTOR))
    return path


def _write(path, data):
    temporary = path + ".tmp"
    paths.remove(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as target:
        target.write(data)
    paths.publish(temporary, path)
