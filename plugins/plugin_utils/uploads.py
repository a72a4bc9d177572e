# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on the controller: sent to a host once, when the first of its instances needs one."""

from __future__ import annotations

import os
import posixpath

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ..module_utils.conductor.errors import UploadFailed, UploadUnusable
from ..module_utils.conductor.procedures.create import to_upload
from ..module_utils.model import checksum, input_hints
from ..module_utils.model.safe_text import clean
from .host_reply import run_module, temporary_directory

CHUNK = 1 << 20


def bring(action, image, pool, size_gb, task_vars):
    """Get the image, from which a disk of ``size_gb`` GiB is made in ``pool``, into the cache of the task's host. Return the
    reply of module cached_image. Raise UploadUnusable, UploadFailed."""
    arguments = {
        "image": {part: image[part] for part in ("name", "checksum", "disk_format")},
        "pool": pool,
        "root_gb": size_gb,
    }
    reply = run_module(action, "cached_image", arguments, task_vars)
    return reply if reply.get("failed") or reply.get("present") else _send(action, image, arguments, task_vars)


def missing(specs):
    """A line for each image of these requests whose file is not there: hosts that have it already need none, so no error."""
    images = {image["upload"]: image for spec in specs for image, _size_gb in to_upload(spec)}
    gone = [_unusable(image, "is no file") for path, image in sorted(images.items()) if not os.path.isfile(path)]
    return [
        "%s, so only a host that has this image already can build from it. %s" % (each.message, each.hint)
        for each in gone
    ]


def check(image):
    """Raise UploadUnusable unless the file is what the image says."""
    path, digest = image["upload"], checksum.hasher(image["checksum"])
    try:
        if not os.path.isfile(path):
            raise _unusable(image, "is no file")
        with open(path, "rb") as source:
            for part in iter(lambda: source.read(CHUNK), b""):
                digest.update(part)
    except OSError as error:
        raise _unusable(image, "could not be read: %s" % error.strerror)
    found = "%s:%s" % (digest.name, digest.hexdigest())
    if found != image["checksum"]:
        raise _unusable(image, "has the checksum %s" % found)


def _unusable(image, why):
    return UploadUnusable(
        "image %s: %s %s" % (image["name"], image["upload"], why),
        field="berth_images.%s.upload" % image["name"],
        value=image["upload"],
        rule="a file on the controller with checksum %s" % image["checksum"],
        hint=input_hints.right_upload(image["upload"]),
    )


def _send(action, image, arguments, task_vars):
    """Copy the file to a temporary directory of Ansible on the host, from which the module takes it."""
    check(image)
    if action._task.check_mode:
        return {"changed": True, "present": True}
    try:
        with temporary_directory(action) as directory:
            remote = posixpath.join(directory, "image")
            action._transfer_file(image["upload"], remote)
            return run_module(action, "cached_image", {**arguments, "path": remote}, task_vars)
    except AnsibleConnectionFailure:
        raise
    except AnsibleError as failure:
        text = clean(str(failure), 300)
        raise UploadFailed("image %s could not be copied to the host: %s" % (image["name"], text)) from None
