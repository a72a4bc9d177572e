# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cached images of a host: each is downloaded once, verified by checksum and header, then only read. An image
larger than the root disk of the flavor is refused.

The checksum is that of the file that the publisher offers. If that is compressed or of another format, the cache has what was
in it, or the qcow2 file made of it, and beside it the SHA-256 of that, in a file .sha256.
"""

from __future__ import annotations

import bz2
import collections
import contextlib
import dataclasses
import errno
import hashlib
import importlib
import lzma
import os
import socket
import stat
import urllib.error
import urllib.request
import zlib
from typing import BinaryIO, Optional, Sequence

from ...model import checksum as checksums
from ...model import disk_formats, disk_hints, input_hints
from ...model.collection_version import COLLECTION_VERSION
from ...model.host_settings import HostSettings
from .. import durable, lock, paths
from ..connection import Deadline, LibvirtTimeout
from ..errors import FlavorTooSmall, ImageInvalid, ImagePathRefused, ImageUnavailable, ImageUrlDead, InstanceBusy
from . import converted_image, image_check

# Where an image's bytes come from: a web server, or a file below the host's own image directories.
#
# Root reads a path of a catalog, so it is only followed below ``image_directories`` of the host's settings, without
# links. A download has a time limit; its caller limits the size.
NETWORK_TIMEOUT = 30  # s without a byte
# Request timeout, too early, too many requests.
_FOR_NOW = (408, 425, 429)
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def shown(url: str) -> str:
    """The url for a message, without what follows a ?, which may be a token."""
    return url.partition("?")[0]


def open_source(url: str, settings: HostSettings) -> BinaryIO:
    if url.startswith("/"):
        return _open_file(url, settings.image_directories)
    if not url.startswith(("http://", "https://")):
        raise ImageInvalid(
            "the image's url is not used", field="url", value=shown(url), rule="http://, https:// or an absolute path"
        )
    try:
        answer = _opener(settings.image_proxy).open(url, timeout=NETWORK_TIMEOUT)
        if answer.status in (204, 206):  # nothing, or a part
            raise urllib.error.HTTPError(url, answer.status, "", None, answer)
        return answer
    except urllib.error.HTTPError as error:
        kind = ImageUrlDead if 400 <= error.code < 500 and error.code not in _FOR_NOW else ImageUnavailable
        said = "%s: the server says %d" if error.code // 100 != 3 else "%s: redirection %d leads nowhere"
        hint = input_hints.server_refuses() if error.code in (401, 403) else disk_hints.reach_image()
        raise kind(said % (shown(url), error.code), field="url", value=shown(url), hint=hint)
    except Exception as error:  # http.client and ssl have their own
        reason = getattr(error, "reason", error)
        unknown = isinstance(reason, socket.gaierror) and reason.errno in _NO_SUCH_NAME
        kind = ImageUrlDead if unknown or isinstance(reason, ConnectionRefusedError) else ImageUnavailable
        said = "%s could not be downloaded: %s" % (shown(url), getattr(reason, "strerror", None) or reason)
        raise kind(said, field="url", value=shown(url), hint=disk_hints.reach_image())


def _opener(proxy: Optional[str]) -> urllib.request.OpenerDirector:
    """Allow HTTP and HTTPS alone, after a redirect too: the usual opener takes ftp:// too. Without ``proxy`` those of the
    environment count. Some servers refuse the name of Python's library."""
    opener = urllib.request.OpenerDirector()
    opener.addheaders = [("User-Agent", "berth.kvm/" + COLLECTION_VERSION)]
    opener.add_handler(urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None))
    for handler in (
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _open_file(path: str, directories: Sequence[str]) -> BinaryIO:
    if os.path.normpath(path) != path or not any(
        path.startswith(directory.rstrip("/") + "/") for directory in directories
    ):
        raise _refused(path, "is not below a directory for images of this host")
    try:
        fd = _open_without_links(path)
    except FileNotFoundError:
        raise ImageUnavailable("%s is not on this host" % path, hint=disk_hints.put_image(), field="url", value=path)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _refused(path, "has a part that is a link, or no directory")
        raise ImageUnavailable("%s could not be read: %s" % (path, error.strerror), field="url", value=path)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ImageInvalid("%s is not a plain file" % path, field="url", value=path)
    return os.fdopen(fd, "rb")


def _refused(path: str, why: str) -> ImagePathRefused:
    return ImagePathRefused(
        "%s %s" % (path, why),
        field="url",
        value=path,
        rule="below berth_host_image_directories of the host, without links",
        hint=input_hints.image_directory(),
    )


def _open_without_links(path: str) -> int:
    """Open each component in the one before it; none may be a link."""
    *directories, name = path.strip("/").split("/")
    at = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for directory in directories:
            inner = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


# Compressed images, as many publishers offer them: unpacked while they are downloaded, never more than a chunk at once.
try:
    zstd = importlib.import_module("compression.zstd")  # Python 3.14
except ImportError:
    zstd = None

MOST_MEMORY = 256 << 20  # bytes that xz may need: the strongest preset needs 65 MiB
FAULTS = (lzma.LZMAError, zlib.error, OSError, ValueError, EOFError) + ((zstd.ZstdError,) if zstd else ())


class _Gzip:
    """zlib's decompressor with the interface of the others."""

    def __init__(self):
        self._stream, self.needs_input = zlib.decompressobj(31), True

    eof = property(lambda self: self._stream.eof)
    unused_data = property(lambda self: self._stream.unused_data)

    def decompress(self, data, most):
        out = self._stream.decompress(self._stream.unconsumed_tail + data, most)
        self.needs_input = not self._stream.unconsumed_tail and len(out) < most
        return out


# format -> (the first bytes of each stream, what makes its decompressor)
STREAMS = {
    "xz": (b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MOST_MEMORY)),
    "gzip": (b"\x1f\x8b\x08", _Gzip),
    "bzip2": (b"BZh", bz2.BZ2Decompressor),
    **({"zstd": (b"\x28\xb5\x2f\xfd", zstd.ZstdDecompressor)} if zstd else {}),
}


class Unpacker:
    """Unpacks what it is fed in pieces of at most ``most`` bytes. ``fault`` says why that went no further, or is None."""

    def __init__(self, kind, most):
        self.magic, self.make = STREAMS[kind]
        self.kind, self.most, self.stream, self.rest, self.fault = kind, most, self.make(), b"", None
        self.is_over = False

    def feed(self, data):
        try:
            yield from self._feed(data)
        except FAULTS as error:
            self.fault = self.fault or "is damaged: %s" % error

    def _feed(self, data):
        while not (self.fault or self.is_over):
            if self.stream is None:  # between two streams; what is no other one, such as a signature, is left out
                self.rest = (self.rest + data).lstrip(b"\0")
                self.is_over = not self.magic.startswith(self.rest[: len(self.magic)])
                if self.is_over or len(self.rest) < len(self.magic):
                    return
                self.stream, data, self.rest = self.make(), self.rest, b""
            yield self.stream.decompress(data, self.most)
            data = b""
            if self.stream.eof:
                data, self.stream = self.stream.unused_data, None
            elif self.stream.needs_input:
                return

    def end(self):
        """Say so if the last stream has no end."""
        if self.stream is not None:
            self.fault = self.fault or "ends too early"


def packed_as(head):
    """Return the format of a compressed file that can be unpacked here, by its first bytes, or None."""
    return next((kind for kind, (magic, _make) in STREAMS.items() if head.startswith(magic)), None)


CHUNK = 1 << 20
GIB = 1 << 30
DOWNLOAD_TIME = 3600  # s for a whole download
WAIT = 3600  # s for another build's download of the same image
# When a verified image was last changed, by its file (s since 1970): whoever writes to it changes that.
VERIFIED = 1000000000

BLOCK = 1 << 16  # of zeros, which become a hole

# The most bytes that may be copied, and the error for more. ``of_disk``: holes count, too.
Limit = collections.namedtuple("Limit", "size error of_disk")


def ensure(pool_path, image, root_gb, settings):
    """Get the image into the host's cache if it is missing. Return {path, format, virtual_size (bytes), fetched}.

    ``settings`` are the host's: the image directories, and how much of the pool stays free. Raise ImageInvalid or
    FlavorTooSmall if no host could use the image, ImageUnavailable if only this one cannot get it.
    """
    directory = paths.make_directory(os.path.join(pool_path, "images"))
    path = paths.image(pool_path, image["checksum"])
    with _one_download(directory, os.path.basename(path)):
        fetched = not os.path.exists(path)
        if fetched:
            _fetch(image, path, root_gb, settings)
        elif os.stat(path).st_mtime != VERIFIED:
            _verify(image, path)
        found = _inspect(path, image, root_gb)
    return {"path": path, "format": found["format"], "virtual_size": found["virtual_size"], "fetched": fetched}


def is_cached(pool_path, image):
    return os.path.exists(paths.image(pool_path, image["checksum"]))


def take_in(pool_path, image, path, root_gb, settings):
    """Put a file on this host that came from the controller into the cache, verified like a download."""
    path = os.path.realpath(path)
    ensure(
        pool_path,
        dict(image, url=path),
        root_gb,
        dataclasses.replace(settings, image_directories=(os.path.dirname(path),)),
    )


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


def _fetch(image, path, root_gb, settings):
    if not image.get("url"):
        raise ImageUnavailable("image %s is not on this host: it is one that create uploads" % image.get("name"))
    temporary, made = path + ".tmp", path + ".new"
    paths.remove(temporary)
    paths.remove(made)
    limits = [_by_flavor(image, root_gb), _by_pool(image, os.path.dirname(path), settings)]
    try:
        digest = Deadline(DOWNLOAD_TIME).call(
            _download, image, settings, temporary, [limit for limit in limits if limit]
        )
        if image["disk_format"] in disk_formats.CONVERTED:
            digest = _convert(image, temporary, made, settings)
        _inspect(temporary, image, root_gb)
        _mark_verified(temporary)
        if digest != os.path.basename(path):
            durable.write_at(path + ".sha256", digest.encode(), 0o600)
        paths.publish(temporary, path)
    except LibvirtTimeout:
        raise ImageUnavailable("the download of image %s took longer than %d s" % (image.get("name"), DOWNLOAD_TIME))
    except OSError as error:
        raise ImageUnavailable("image %s could not be stored: %s" % (image.get("name"), error.strerror or error))
    finally:
        paths.remove(temporary)
        paths.remove(made)


def _convert(image, path, made, settings):
    """Put the qcow2 file of a downloaded image, ``made``, in its place. Return the SHA-256 of that."""
    converted_image.check(path, image["disk_format"])
    limit = _by_pool(image, os.path.dirname(path), settings)
    if converted_image.room(path, image["disk_format"]) > limit.size:
        raise limit.error
    converted_image.make(path, image["disk_format"], made)
    os.rename(made, path)
    return _sha256(path)


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(CHUNK), b""):
            digest.update(part)
    return digest.hexdigest()


def _verify(image, path):
    """Read a cached image that somebody may have written to since it was verified, or that an older version fetched.
    Raise ImageUnavailable if it has changed."""
    expected = os.path.basename(path)
    with contextlib.suppress(FileNotFoundError), open(path + ".sha256", encoding="ascii", errors="replace") as file:
        expected = file.read(len(expected))
    if _sha256(path) != expected:
        raise ImageUnavailable(
            "the cached file of image %s, %s, was changed: its checksum differs" % (image.get("name"), path),
            hint=disk_hints.put_changed_image_away(path),
        )
    _mark_verified(path)


def _mark_verified(path):
    with contextlib.suppress(OSError):  # then it is read again the next time
        os.utime(path, (VERIFIED, VERIFIED))


def _by_flavor(image, root_gb):
    """Limit the file to the root disk, plus the file's own tables, or to ``most_bytes`` if it is no disk."""
    most = image.get("most_bytes")
    if most:
        error = ImageInvalid("%s is larger than %d bytes" % (image.get("name"), most), field="checksum")
        return Limit(most, error, True)
    if not root_gb:
        return None
    size = root_gb * GIB
    if image["disk_format"] != "raw":
        size += size // 8 + (1 << 24)
    return Limit(
        size,
        FlavorTooSmall(
            "the file of image %s is larger than the flavor's root disk" % image.get("name"),
            field="flavor.root_gb",
            value=root_gb,
            rule="at least the image's size",
        ),
        True,
    )


def _by_pool(image, directory, settings):
    """Limit the file to what the pool has free beyond the host's reserve."""
    free = max(0, paths.free_bytes(directory) - settings.reserved_host_disk_gb * GIB)
    error = ImageUnavailable("image %s does not fit into the pool: %d bytes are free" % (image.get("name"), free))
    return Limit(free, error, False)


class _Target:
    """The file in the cache: blocks of zeros are holes. ``size`` is that of the disk, ``written`` without the holes."""

    def __init__(self, file, limits):
        self.file, self.limits = file, limits
        self.size = self.written = 0
        self.digest = hashlib.sha256()

    def write(self, data):
        self.size += len(data)
        self.digest.update(data)
        for at in range(0, len(data), BLOCK):
            block = data[at : at + BLOCK]
            if block.count(0) == len(block):
                self.file.seek(len(block), os.SEEK_CUR)
            else:
                self.written += len(block)
                self.within(self.written)
                self.file.write(block)
        self.within(self.written)

    def within(self, written):
        for limit in self.limits:
            if (self.size if limit.of_disk else written) > limit.size:
                raise limit.error


def _download(image, settings, temporary, limits):
    """Copy the source to a new file, unpacked, and prove it by its checksum. Return the SHA-256 of the new file."""
    url, expected = image["url"], _stated(image, settings)
    out = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    published, unpacker, size = checksums.hasher(expected), None, 0
    with os.fdopen(out, "wb") as file, open_source(url, settings) as source:
        target, announced = _Target(file, limits), _announced(source)
        _within(announced or 0, limits)
        for part in iter(lambda: _read(source, url), b""):
            if not size and not image.get("most_bytes"):
                kind = packed_as(part)
                unpacker = Unpacker(kind, CHUNK) if kind else None
            size += len(part)
            _within(size, limits)
            published.update(part)
            for piece in unpacker.feed(part) if unpacker else (part,):
                target.write(piece)
        file.truncate(target.size)
    if announced is not None and size < announced:
        raise ImageUnavailable("%s broke off after %d of %d bytes" % (shown(url), size, announced))
    _prove(image, "%s:%s" % (published.name, published.hexdigest()), expected, unpacker)
    return target.digest.hexdigest()


def _prove(image, found, expected, unpacker):
    if found != expected:
        # The message does not say what the file is: its path may be a guess at somebody else's file.
        raise ImageInvalid(
            "image %s: what %s gives does not match the checksum in the catalog"
            % (image.get("name"), shown(image["url"])),
            field="checksum",
            value=image["checksum"],
            rule="the one that its publisher states; a replaced file has a new one",
        )
    if unpacker:
        unpacker.end()
        if unpacker.fault:
            raise ImageInvalid(
                "image %s: its %s file %s" % (image.get("name"), unpacker.kind, unpacker.fault), field="url"
            )


def _stated(image, settings):
    """Return the checksum; of a publisher's list, of which a chunk is read, the one that it has for the file."""
    listed = checksums.IN_LIST.match(image["checksum"])
    if not listed:
        return image["checksum"]
    address, name = listed.groups()
    with open_source(address, settings) as source:
        text = _read(source, address).decode("utf-8", "replace")
    found = checksums.find(text, name)
    if found is None:
        raise ImageInvalid(
            "image %s: %s has no checksum of %s" % (image.get("name"), shown(address), name),
            field="checksum",
            value=address,
            rule="a list of SHA-256 or SHA-512 checksums that names the file at url",
        )
    return found


def _announced(source):
    """Return the size in bytes that a server or a file announces, or None."""
    headers = getattr(source, "headers", None)
    if headers is None:
        return os.fstat(source.fileno()).st_size
    text = headers.get("Content-Length") or ""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def _within(size, limits):
    """Neither an announced nor a packed file may be larger than what it becomes."""
    for limit in limits:
        if size > limit.size:
            raise limit.error


def _read(source, url):
    try:
        return source.read(CHUNK)
    except Exception as error:  # http.client and ssl have their own errors beside OSError
        raise ImageUnavailable("%s broke off: %s" % (shown(url), error))


def _inspect(path, image, root_gb):
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = image_check.inspect(
            fd, disk_formats.in_cache(image["disk_format"]), is_disk=not image.get("most_bytes")
        )
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
