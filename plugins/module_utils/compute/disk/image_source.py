# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an image's bytes come from: a web server, or a file below the host's own image directories.

Root reads a path of a catalog, so it is only followed below ``image_directories`` of the host's settings, without
links. A download has a time limit; its caller limits the size.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import urllib.error
import urllib.request
from typing import BinaryIO, Optional, Sequence

from ...model import input_hints
from ...model.collection_version import COLLECTION_VERSION
from ..errors import ImageInvalid, ImagePathRefused, ImageUnavailable, ImageUrlDead
from ..host.settings import HostSettings

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
        hint = input_hints.server_refuses() if error.code in (401, 403) else None
        raise kind(said % (shown(url), error.code), field="url", value=shown(url), hint=hint)
    except Exception as error:  # http.client and ssl have their own
        reason = getattr(error, "reason", error)
        unknown = isinstance(reason, socket.gaierror) and reason.errno in _NO_SUCH_NAME
        kind = ImageUrlDead if unknown or isinstance(reason, ConnectionRefusedError) else ImageUnavailable
        raise kind("%s could not be downloaded: %s" % (shown(url), reason), field="url", value=shown(url))


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
        raise ImageUnavailable("%s is not on this host" % path, field="url", value=path)
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
