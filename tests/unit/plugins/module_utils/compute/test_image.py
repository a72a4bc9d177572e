# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image cache of a host: one download, proven by its checksum, published whole (C30, A28)."""

from __future__ import annotations

import hashlib
import http.server
import os
import stat
import threading
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    FlavorTooSmall,
    ImageInvalid,
    ImageUnavailable,
    StateUnsafe,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

CONTENT = b"\x55\xaa" * (1 << 16)


def described(url, content=CONTENT, **changes):
    checksum = "sha256:" + hashlib.sha256(content).hexdigest()
    return {"name": "guest", "url": url, "checksum": checksum, "disk_format": "raw", **changes}


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "pool"
    path.mkdir(mode=0o711)
    return str(path)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "guest.raw"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.fixture
def web():
    """A server that counts its requests; /slow ends half way, /none is not there."""

    class Handler(http.server.BaseHTTPRequestHandler):
        requests = 0

        def do_GET(self):
            type(self).requests += 1
            if self.path == "/none":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT if self.path == "/whole" else CONTENT[:1000])

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
    first = image.ensure(pool, described(source), 0)
    os.unlink(source)
    second = image.ensure(pool, described(source), 0)
    assert (first["fetched"], second["fetched"]) == (True, False)
    assert left_in(pool) == [hashlib.sha256(CONTENT).hexdigest()]


def test_a_cached_image_is_for_its_owner_only(pool, source):
    path = image.ensure(pool, described(source), 0)["path"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_builds_at_once_share_one_download(pool, web):
    url, handler = web
    threads = [threading.Thread(target=image.ensure, args=(pool, described(url + "/whole"), 0)) for _one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert handler.requests == 1
    assert left_in(pool) == [hashlib.sha256(CONTENT).hexdigest()]


@pytest.mark.parametrize("path", ["/none", "/cut"])
def test_a_download_that_fails_may_work_on_another_host(pool, web, path):
    wanted = described(web[0] + path)
    if path == "/cut":
        with pytest.raises(ImageInvalid, match="checksum"):
            image.ensure(pool, wanted, 0)
    else:
        with pytest.raises(ImageUnavailable) as caught:
            image.ensure(pool, wanted, 0)
        assert caught.value.retryable
    assert left_in(pool) == []


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"checksum": "sha256:" + "0" * 64}, ImageInvalid),
        ({"disk_format": "qcow2"}, ImageInvalid),
        ({"url": "/nowhere/at/all"}, ImageUnavailable),
        ({"url": "/dev/zero"}, ImageInvalid),
        ({"url": "file:///etc/passwd"}, ImageInvalid),
        ({"url": "ftp://127.0.0.1/x"}, ImageInvalid),
    ],
    ids=["checksum", "format", "missing", "device", "file url", "ftp url"],
)
def test_a_bad_image_leaves_nothing_in_the_cache(pool, source, changes, error):
    with pytest.raises(error):
        image.ensure(pool, {**described(source), **changes}, 0)
    assert left_in(pool) == []


@pytest.mark.parametrize("checksum", ["", "md5:abc", "sha256:../../etc/passwd", "sha256:" + "A" * 64, None])
def test_only_a_checksum_names_a_cached_file(pool, source, checksum):
    with pytest.raises(StateUnsafe):
        image.ensure(pool, {**described(source), "checksum": checksum}, 0)


def test_an_image_larger_than_the_flavor_is_refused(pool, source, monkeypatch):
    monkeypatch.setattr(image, "GIB", len(CONTENT) - 512)
    with pytest.raises(FlavorTooSmall):
        image.ensure(pool, described(source), 1)
    assert left_in(pool) == []


HOSTS = ("11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a")


def make_instance(pool, host_uuid):
    """The owner file of an instance in the pool."""
    directory = Path(pool) / "instances" / "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    directory.parent.mkdir(mode=0o711)
    directory.mkdir(mode=0o711)
    path = directory / "owner"
    path.write_text(host_uuid)
    path.chmod(0o600)
    return path


def test_only_images_that_no_record_needs_are_removed_and_none_of_a_pool_with_others_instances(pool, tmp_path):
    specs = []
    for word in (b"kept", b"moving", b"unused"):
        path = tmp_path / word.decode()
        path.write_bytes(word * 512)
        specs.append({"image": described(str(path), word * 512)})
        image.ensure(pool, specs[-1]["image"], 0)
    record = Record(
        uuid="0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", name="web-1", project_id="default", role="OWN",
        generation=[1, 0], token="t",
        phase="active", spec=specs[0], resources={}, migration={"old_spec": specs[0], "new_spec": specs[1]},
    )  # fmt: skip
    owner = make_instance(pool, HOSTS[0])
    assert image.remove_unused(pool, [record], HOSTS[1]) == []
    owner.write_text(HOSTS[1])
    assert image.remove_unused(pool, [record], HOSTS[1]) == [specs[2]["image"]["checksum"].split(":")[1]]
    assert len(left_in(pool)) == 2
