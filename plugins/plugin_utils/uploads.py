# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on the controller: sent to a host once, when the first of its instances needs one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import posixpath

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ..module_utils.conductor.errors import UploadFailed, UploadUnusable
from ..module_utils.model import checksum, input_hints
from ..module_utils.model.errors import BerthError
from ..module_utils.model.safe_text import clean
from .host_reply import answer_of, ask_module, host_of

CHUNK = 1 << 20


def bring(action, image, pool, size_gb, task_vars):
    """Get the image, from which a disk of ``size_gb`` GiB is made in ``pool``, into the cache of the task's host.
    Return {}, or the answer that says why it is not there."""
    host = host_of(action, task_vars)
    arguments = {
        "image": {part: image[part] for part in ("name", "checksum", "disk_format")},
        "pool": pool,
        "root_gb": size_gb,
    }
    with _one_at_a_time(host, image["checksum"]):
        answer = ask_module(action, "cached_image", arguments, task_vars)
        if not _is_bad(answer) and not answer.get("present"):
            answer = _send(action, image, arguments, task_vars)
    return answer if _is_bad(answer) else {}


def _is_bad(answer):
    return "error" in answer or "reason" in answer


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
    try:
        check(image)
        if action._task.check_mode:
            return {}
        directory = action._make_tmp_path()
        try:
            remote = posixpath.join(directory, "image")
            action._transfer_file(image["upload"], remote)
            return ask_module(action, "cached_image", {**arguments, "path": remote}, task_vars)
        finally:
            action._remove_tmp_path(directory, force=True)
    except AnsibleConnectionFailure as failure:
        return answer_of({"unreachable": True, "msg": str(failure)})
    except AnsibleError as failure:
        text = clean(str(failure), 300)
        return {"error": UploadFailed("image %s could not be copied to the host: %s" % (image["name"], text)).to_dict()}
    except BerthError as error:
        return {"error": error.to_dict()}


@contextlib.contextmanager
def _one_at_a_time(host, checksum):
    """Of several instances built on one host in separate processes, one sends the image and the others wait."""
    name = "berth-%s" % hashlib.sha256(("%s %s" % (host, checksum)).encode()).hexdigest()
    with open(os.path.join(constants.DEFAULT_LOCAL_TMP, name), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
