# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image cache of a host: one download, proven by its checksum, published whole (C30, A28)."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    FlavorTooSmall,
    ImageInvalid,
    ImagePathRefused,
    ImageUnavailable,
    ImageUrlDead,
    StateUnsafe,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings

CONTENT = b"\x55\xaa" * (1 << 16)


def ensure(pool, wanted, root_gb, **settings):
    """With files from beside the pool allowed."""
    allowed = {"image_directories": (os.path.dirname(pool),), **settings}
    return image.ensure(pool, wanted, root_gb, HostSettings(**allowed))


def described(url, content=CONTENT, **changes):
    checksum = "sha256:" + hashlib.sha256(content).hexdigest()
    return {"name": "guest", "url": url, "checksum": checksum, "disk_format": "raw", **changes}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "guest.raw"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.fixture
def web():
    """A server that counts its requests; /cut ends half way, a number is its status, /slow drips, /endless has no end."""

    class Handler(http.server.BaseHTTPRequestHandler):
        requests = sent = 0
        location = None

        def do_GET(self):
            type(self).requests += 1
            if self.path[1:].isdecimal():
                self.send_error(int(self.path[1:]))
            elif self.path == "/garbage":
                self.wfile.write(b"no answer of a web server\r\n")
            elif self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", self.location)
                self.end_headers()
            elif self.path in ("/endless", "/slow", "/slow-headers"):
                self.drip()
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(CONTENT)))
                self.end_headers()
                self.wfile.write(CONTENT if self.path == "/whole" else CONTENT[:1000])

        def drip(self):
            with contextlib.suppress(OSError):
                if self.path != "/slow-headers":
                    self.send_response(200)
                    self.end_headers()
                while True:
                    part = CONTENT if self.path == "/endless" else b"x"
                    type(self).sent += self.wfile.write(part)
                    time.sleep(0 if self.path == "/endless" else 0.05)

        def log_message(self, *_args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "http://127.0.0.1:%d" % server.server_port, Handler
    server.shutdown()
    server.server_close()


def left_in(pool):
    return sorted(os.listdir(os.path.join(pool, "images")))


def test_a_file_is_taken_once_and_then_found(pool, source):
    first = ensure(pool, described(source), 0)
    os.unlink(source)
    second = ensure(pool, described(source), 0)
    assert (first["fetched"], second["fetched"]) == (True, False)
    assert left_in(pool) == [hashlib.sha256(CONTENT).hexdigest()]


@pytest.mark.follows("put_changed_image_away")
def test_no_disk_is_made_from_a_cached_image_that_somebody_changed_until_it_was_put_away(pool, source):
    """Such as by virsh blockcommit without --base. An image that nobody wrote to is not read again."""
    wanted = described(str(source))
    cached = Path(ensure(pool, wanted, 1)["path"])
    verified = cached.stat().st_mtime
    cached.write_bytes(CONTENT[:-1] + b"X")
    with pytest.raises(ImageUnavailable, match="its checksum differs") as refused:
        ensure(pool, wanted, 1)
    subprocess.run(re.search(r"host: (mv .*?), which", refused.value.hint).group(1), shell=True, check=True)
    assert ensure(pool, wanted, 1)["fetched"] and cached.read_bytes() == CONTENT
    assert cached.with_name(cached.name + ".changed").read_bytes() == CONTENT[:-1] + b"X"
    assert cached.stat().st_mtime == verified


def test_an_image_that_an_older_version_fetched_is_read_once(pool, source, monkeypatch):
    wanted = described(str(source))
    cached = ensure(pool, wanted, 1)["path"]
    os.utime(cached)
    assert not ensure(pool, wanted, 1)["fetched"]
    monkeypatch.setattr(image, "_verify", None)
    assert not ensure(pool, wanted, 1)["fetched"]


def test_a_cached_image_is_for_its_owner_only(pool, source):
    path = ensure(pool, described(source), 0)["path"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_builds_at_once_share_one_download(pool, web):
    url, handler = web
    threads = [threading.Thread(target=ensure, args=(pool, described(url + "/whole"), 0)) for _one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert handler.requests == 1
    assert left_in(pool) == [hashlib.sha256(CONTENT).hexdigest()]


@pytest.mark.parametrize("path", ["/cut", "/503", "/429", "/garbage"])
def test_a_download_that_fails_may_work_on_another_host(pool, web, path):
    with pytest.raises(ImageUnavailable) as caught:
        ensure(pool, described(web[0] + path), 0)
    assert caught.value.retryable
    assert left_in(pool) == []


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("path", ["/404", "/403", "refused", "unknown name"])
def test_a_url_where_nothing_is_is_tried_on_no_other_host(pool, web, monkeypatch, path):
    url = web[0] + path
    if path == "refused":
        url = "http://127.0.0.1:%d/x?token=secret" % closed_port()
    if path == "unknown name":
        url = "http://images.invalid/x?token=secret"

        def unknown(*_args, **_kwargs):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ImageUrlDead) as caught:
        ensure(pool, described(url), 0)
    assert not caught.value.retryable
    assert "secret" not in str(caught.value.to_result())
    assert left_in(pool) == []


@pytest.mark.follows("reach_image")
def test_who_corrects_the_url_of_an_image_has_it(pool, web):
    with pytest.raises(ImageUrlDead) as caught:
        ensure(pool, described(web[0] + "/404"), 0)
    assert caught.value.hint == disk_hints.reach_image()
    assert ensure(pool, described(web[0] + "/whole"), 0)["fetched"]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x"])
def test_a_redirection_leads_to_web_servers_only(pool, web, target):
    web[1].location = target
    with pytest.raises(ImageUnavailable):
        ensure(pool, described(web[0] + "/moved"), 0)
    web[1].location = web[0] + "/whole"
    assert ensure(pool, described(web[0] + "/moved"), 0)["fetched"]


def outside(tmp_path, content=CONTENT):
    """A file that is on the host, but not among its images."""
    path = tmp_path.parent / (tmp_path.name + "-secret")
    path.write_bytes(content)
    return path


PATHS = {
    "a file elsewhere": lambda top, secret: secret,
    "a path with ..": lambda top, secret: "%s/../%s" % (top, secret.name),
    "a path with //": lambda top, secret: "%s//guest.raw" % top,
    "a link to a file elsewhere": lambda top, secret: (top / "link").symlink_to(secret) or top / "link",
    "a linked directory": lambda top, secret: (top / "dir").symlink_to(secret.parent) or top / "dir" / secret.name,
    "a directory whose name begins alike": lambda top, secret: secret,
    "a file in place of a directory": lambda top, secret: top / "guest.raw" / "x",
}


@pytest.mark.parametrize("make", PATHS.values(), ids=list(PATHS))
def test_only_files_below_the_hosts_directories_of_images_are_read_and_no_link_is_followed(
    pool, source, tmp_path, make
):
    url = str(make(tmp_path, outside(tmp_path)))
    with pytest.raises(ImagePathRefused, match="berth_host_image_directories") as caught:
        ensure(pool, described(url), 0)
    assert not caught.value.retryable
    assert left_in(pool) == []


@pytest.mark.follows("image_directory")
def test_by_default_no_file_of_the_host_is_an_image_until_its_directory_is_named(pool, source):
    with pytest.raises(ImagePathRefused) as caught:
        ensure(pool, described(source), 0, image_directories=())
    assert caught.value.hint == input_hints.image_directory()
    assert ensure(pool, described(source), 0, image_directories=(os.path.dirname(source),))["fetched"]


@pytest.mark.follows("put_image")
def test_an_image_whose_path_this_host_does_not_have_is_taken_once_it_is_there(pool, source):
    wanted = described(source)
    os.rename(source, source + ".away")
    with pytest.raises(ImageUnavailable) as caught:
        ensure(pool, wanted, 0)
    assert caught.value.hint == disk_hints.put_image()
    os.rename(source + ".away", source)
    assert ensure(pool, wanted, 0)["fetched"]


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_only_plain_files_are_images(pool, tmp_path, kind):
    path = tmp_path / "odd"
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    with pytest.raises(ImageInvalid):
        ensure(pool, described(str(path)), 0)


def test_no_error_tells_what_a_file_really_is(pool, source):
    with pytest.raises(ImageInvalid, match="does not match the checksum in the catalog") as caught:
        ensure(pool, described(source, content=b"a guess"), 0)
    said = str(caught.value.to_result())
    assert hashlib.sha256(CONTENT).hexdigest() not in said and str(len(CONTENT)) not in said


@pytest.mark.parametrize("path", ["/whole", "/endless", "file"])
def test_no_more_is_copied_than_fits_the_flavor(pool, web, source, monkeypatch, path):
    monkeypatch.setattr(image, "GIB", 64 * 1024)
    monkeypatch.setattr(image, "CHUNK", 4096)
    web[1].sent = 0
    with pytest.raises(FlavorTooSmall) as caught:
        ensure(pool, described(source if path == "file" else web[0] + path), 1)
    assert not caught.value.retryable
    assert web[1].sent < 32 << 20
    assert left_in(pool) == []


@pytest.mark.parametrize("path", ["/whole", "/endless", "file"])
def test_no_more_is_copied_than_the_pool_has_free_beyond_what_is_kept_for_the_host(
    pool, web, source, monkeypatch, path
):
    room = os.statvfs(pool)
    kept = room.f_bavail * room.f_frsize - 64 * 1024
    monkeypatch.setattr(image, "GIB", kept)
    monkeypatch.setattr(image.os, "statvfs", lambda _path: room)
    with pytest.raises(ImageUnavailable, match="does not fit into the pool") as caught:
        ensure(pool, described(source if path == "file" else web[0] + path), 0, reserved_host_disk_gb=1)
    assert caught.value.retryable
    assert left_in(pool) == []


@pytest.mark.parametrize("path", ["/slow", "/slow-headers"])
def test_a_download_that_drips_ends_in_time(pool, web, monkeypatch, path):
    monkeypatch.setattr(image, "DOWNLOAD_TIME", 0.5)
    began = time.monotonic()
    with pytest.raises(ImageUnavailable, match="took longer than"):
        ensure(pool, described(web[0] + path), 0)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"checksum": "sha256:" + "0" * 64}, ImageInvalid),
        ({"disk_format": "qcow2"}, ImageInvalid),
        ({"url": "/nowhere/at/all"}, ImagePathRefused),
        ({"url": "/dev/zero"}, ImagePathRefused),
        ({"url": "file:///etc/passwd"}, ImageInvalid),
        ({"url": "ftp://127.0.0.1/x"}, ImageInvalid),
    ],
    ids=["checksum", "format", "missing", "device", "file url", "ftp url"],
)
def test_a_bad_image_leaves_nothing_in_the_cache(pool, source, changes, error):
    with pytest.raises(error):
        ensure(pool, {**described(source), **changes}, 0)
    assert left_in(pool) == []


@pytest.mark.parametrize("checksum", ["", "md5:abc", "sha256:../../etc/passwd", "sha256:" + "A" * 64, None])
def test_only_a_checksum_names_a_cached_file(pool, source, checksum):
    with pytest.raises(StateUnsafe):
        ensure(pool, {**described(source), "checksum": checksum}, 0)


def test_an_image_larger_than_the_flavor_is_refused(pool, source, monkeypatch):
    monkeypatch.setattr(image, "GIB", len(CONTENT) - 512)
    with pytest.raises(FlavorTooSmall):
        ensure(pool, described(source), 1)
    assert left_in(pool) == []


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_a_small_file_of_a_large_disk_is_refused_for_a_smaller_flavor(pool, tmp_path, monkeypatch):
    """The guest would find the end of its disk missing."""
    path = tmp_path / "guest.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "2M"], check=True)
    wanted = described(str(path), path.read_bytes(), disk_format="qcow2")
    monkeypatch.setattr(image, "GIB", 1 << 20)
    with pytest.raises(FlavorTooSmall, match="virtual size"):
        ensure(pool, wanted, 1)
    assert left_in(pool) == []
    assert ensure(pool, wanted, 2)["virtual_size"] == 2 << 20


def test_a_file_from_the_controller_is_proven_and_becomes_the_hosts_image(pool, source):
    wanted = described(None)
    assert not image.is_cached(pool, wanted)
    image.take_in(pool, wanted, source, 1, HostSettings())
    assert image.is_cached(pool, wanted) and os.path.exists(source)
    assert not image.ensure(pool, wanted, 1, HostSettings())["fetched"]


def test_a_file_from_the_controller_that_is_another_is_refused(pool, source):
    wanted = described(None, b"another")
    with pytest.raises(ImageInvalid):
        image.take_in(pool, wanted, source, 1, HostSettings())
    assert not image.is_cached(pool, wanted)


def test_an_image_that_was_not_sent_is_missed_by_name(pool):
    with pytest.raises(ImageUnavailable, match="guest is not on this host"):
        image.ensure(pool, described(None), 1, HostSettings())
