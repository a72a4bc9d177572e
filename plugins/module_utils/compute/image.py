# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of a host: each downloaded once, proven by checksum and header, then only read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import urllib.error
import urllib.request

from . import image_format, lock, owner, paths
from .errors import FlavorTooSmall, ImageInvalid, ImageUnavailable, InstanceBusy

CHUNK = 1 << 20
GIB = 1 << 30
NETWORK_TIMEOUT = 30  # s without a byte
WAIT = 3600  # s for another build's download of the same image


def ensure(pool_path, image, root_gb):
    """The image in the host's cache, downloaded where it is missing: {path, format, virtual_size (bytes), fetched}.

    ImageInvalid or FlavorTooSmall where no host could use it, ImageUnavailable where only this one cannot have it.
    """
    directory = paths.make_directory(os.path.join(pool_path, "images"))
    path = paths.image(pool_path, image["checksum"])
    with _one_download(directory, os.path.basename(path)):
        fetched = not os.path.exists(path)
        if fetched:
            _fetch(image, path, root_gb)
        found = _inspect(path, image, root_gb)
    return {"path": path, "format": found["format"], "virtual_size": found["virtual_size"], "fetched": fetched}


def used_checksums(records):
    """The checksums that any record needs, the specs of a move included."""
    specs = []
    for record in records:
        specs.append(record.spec)
        migration = record.migration or {}
        specs.extend(migration.get(part) or {} for part in ("old_spec", "new_spec"))
    return {(spec.get("image") or {}).get("checksum") for spec in specs} - {None}


def remove_unused(pool_path, records, host_uuid):
    """Remove cached images that no record needs; their names. Under the host's lock, so that no claim comes between.

    A pool in which another host has instances keeps all: this host does not know what they stand on.
    """
    directory = os.path.join(pool_path, "images")
    if not os.path.isdir(directory) or owner.others_in(pool_path, host_uuid):
        return []
    paths.check_directory(directory)
    used = {paths.digest(checksum) for checksum in used_checksums(records)}
    removed = []
    for name in sorted(os.listdir(directory)):
        if name.split(".")[0] not in used and paths.remove(os.path.join(directory, name)):
            removed.append(name)
    return removed


@contextlib.contextmanager
def _one_download(directory, name):
    def busy(who):
        return InstanceBusy("the image is being downloaded by %s" % who)

    def open_directory():
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    directory_fd, fd = lock.acquire(open_directory, name + ".lock", WAIT, "download", busy)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name + ".lock", dir_fd=directory_fd)
        os.close(fd)
        os.close(directory_fd)


def _fetch(image, path, root_gb):
    temporary = path + ".tmp"
    paths.remove(temporary)
    try:
        digest = _download(image["url"], temporary)
        if digest != paths.digest(image["checksum"]):
            raise ImageInvalid(
                "image %s has the checksum sha256:%s" % (image.get("name"), digest),
                field="checksum",
                value=image["checksum"],
                rule="the checksum of what %s gives" % image["url"],
            )
        _inspect(temporary, image, root_gb)
        paths.publish(temporary, path)
    except OSError as error:
        raise ImageUnavailable("image %s could not be stored: %s" % (image.get("name"), error.strerror or error))
    finally:
        paths.remove(temporary)


def _download(url, temporary):
    """Copy the source to a new file; the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    out = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(out, "wb") as target, _open_source(url) as source:
        while True:
            part = _read(source, url)
            if not part:
                break
            digest.update(part)
            target.write(part)
    return digest.hexdigest()


def _read(source, url):
    try:
        return source.read(CHUNK)
    except Exception as error:  # http.client and ssl have errors of their own beside OSError
        raise ImageUnavailable("%s broke off: %s" % (url, error))


def _open_source(url):
    if url.startswith("/"):
        return _open_file(url)
    if not url.startswith(("http://", "https://")):
        raise ImageInvalid(
            "the image's url is not used", field="url", value=url, rule="http://, https:// or an absolute path"
        )
    try:
        return urllib.request.build_opener().open(url, timeout=NETWORK_TIMEOUT)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ImageUnavailable("%s could not be had: %s" % (url, error))


def _open_file(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ImageUnavailable("%s could not be read: %s" % (path, error.strerror))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ImageInvalid("%s is not a plain file" % path, field="url", value=path)
    return os.fdopen(fd, "rb")


def _inspect(path, image, root_gb):
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = image_format.inspect(fd, image["disk_format"])
    finally:
        os.close(fd)
    if root_gb and found["virtual_size"] > root_gb * GIB:
        raise FlavorTooSmall(
            "image %s has a virtual size of %d bytes, the flavor's root disk %d GiB"
            % (image.get("name"), found["virtual_size"], root_gb),
            field="flavor.root_gb",
            value=root_gb,
            rule="at least the image's virtual size",
        )
    return found
