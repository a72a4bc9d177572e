# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images as publishers offer them: compressed, in archives, with checksums of other kinds or in a list."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.server
import lzma
import os
import random
import subprocess
import threading
import zlib

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    FlavorTooSmall,
    ImageInvalid,
    ImageUnavailable,
    ImageUrlDead,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import checksum
from ansible_collections.berth.kvm.plugins.module_utils.model.collection_version import COLLECTION_VERSION
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings

DISK = b"\x55\xaa" * (1 << 19) + random.Random(1).randbytes(1 << 20) + b"\0" * (1 << 20)
PACK = {"xz": lzma.compress, "gzip": gzip.compress, "bzip2": bz2.compress}
if image.zstd:
    PACK["zstd"] = image.zstd.compress


@pytest.fixture
def take(pool, tmp_path):
    """Have an image of this file taken into the cache."""

    def take(content, root_gb=0, **changes):
        path = tmp_path / "published"
        path.write_bytes(content)
        stated = {"checksum": "sha256:" + hashlib.sha256(content).hexdigest(), **changes}
        wanted = {"name": "guest", "url": str(path), "disk_format": "raw", **stated}
        return image.ensure(pool, wanted, root_gb, HostSettings(image_directories=(str(tmp_path),)))

    return take


def cached(found):
    with open(found["path"], "rb") as file:
        return file.read()


@pytest.mark.parametrize("chunk", [1 << 20, 4099, 7919])
@pytest.mark.parametrize("kind", PACK)
def test_a_compressed_image_is_unpacked_while_it_is_downloaded(take, monkeypatch, kind, chunk):
    """Its checksum is that of the file that the publisher offers."""
    monkeypatch.setattr(image, "CHUNK", chunk)
    found = take(PACK[kind](DISK))
    assert cached(found) == DISK and (found["format"], found["virtual_size"]) == ("raw", len(DISK))


@pytest.mark.parametrize("kind", PACK)
def test_an_unpacked_image_is_found_again_and_somebody_who_changed_it_is_found_out(take, pool, kind):
    packed = PACK[kind](DISK)
    path = take(packed)["path"]
    os.utime(path)
    again = take(packed)
    assert again["fetched"] is False and os.stat(path).st_mtime == image.VERIFIED
    with open(path, "r+b") as file:
        file.write(b"changed")
    with pytest.raises(ImageUnavailable, match="was changed: its checksum differs"):
        take(packed)


@pytest.mark.parametrize(
    "more", [lambda packed: packed, lambda packed: b"\0" * 512 + packed], ids=["at once", "padded"]
)
@pytest.mark.parametrize("kind", ["xz", "gzip", "bzip2"])
def test_a_file_of_several_streams_is_unpacked_whole(take, kind, more):
    """As xz, pixz and bgzip write them."""
    assert cached(take(PACK[kind](DISK[:5000]) + more(PACK[kind](DISK[5000:])))) == DISK


def test_a_signature_behind_the_image_is_left_out(take):
    """OpenWrt's images have one."""
    assert cached(take(gzip.compress(DISK) + b"fwtool signature" * 9)) == DISK


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-40], lambda packed: packed[:2000] + b"x" * 99 + packed[2099:]]
)
def test_a_compressed_file_that_is_damaged_is_no_image(take, pool, kind, damage):
    with pytest.raises(ImageInvalid, match="its %s file" % kind):
        take(damage(PACK[kind](DISK)))
    assert os.listdir(os.path.join(pool, "images")) == []


def test_of_a_compressed_file_with_another_checksum_nothing_is_told(take):
    with pytest.raises(ImageInvalid, match="does not match the checksum") as caught:
        take(lzma.compress(DISK)[:-40], checksum="sha256:" + "0" * 64)
    assert "xz" not in str(caught.value.to_result())


@pytest.mark.parametrize("kind", PACK)
def test_no_more_is_unpacked_than_fits_the_flavor(take, pool, monkeypatch, kind):
    monkeypatch.setattr(image, "GIB", 1 << 20)
    inspect, whole = image._inspect, []
    monkeypatch.setattr(image, "_inspect", lambda *args: [whole.append(args), inspect(*args)][1])
    with pytest.raises(FlavorTooSmall):
        take(PACK[kind](b"\1" * (64 << 20)), 2)
    with pytest.raises(FlavorTooSmall):
        take(PACK[kind](bytes(64 << 20)), 2)
    assert os.listdir(os.path.join(pool, "images")) == whole == []


ARCHIVES = {
    "tar": b"disk.vmdk".ljust(257, b"\0") + b"ustar\x0000" + bytes(2000),
    "zip": b"PK\x03\x04" + bytes(2000),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(2000),
    "lz4": b"\x04\x22\x4d\x18" + bytes(2000),
    "ISO 9660": bytes(0x8001) + b"CD001" + bytes(2000),
    **({} if image.zstd else {"zstd": b"\x28\xb5\x2f\xfd" + bytes(2000)}),
}


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "in gzip"])
@pytest.mark.parametrize("kind", ARCHIVES)
def test_what_is_no_disk_is_refused_with_what_makes_one_of_it(take, kind, packed):
    with pytest.raises(ImageInvalid, match="its content is " + kind) as caught:
        take(packed(ARCHIVES[kind]))
    assert caught.value.hint and (kind == "ISO 9660" or " FILE" in caught.value.hint)


@pytest.mark.follows("unpack_image")
def test_the_command_for_an_archive_gives_the_disk_in_it(take, tmp_path):
    (tmp_path / "disk.raw").write_bytes(DISK)
    subprocess.run(["tar", "-cf", "image.tar", "disk.raw"], cwd=tmp_path, check=True)
    with pytest.raises(ImageInvalid) as caught:
        take((tmp_path / "image.tar").read_bytes())
    (tmp_path / "disk.raw").unlink()
    command = caught.value.hint.partition("with ")[2].partition(",")[0]
    subprocess.run(command.replace("FILE", "image.tar").split(), cwd=tmp_path, check=True)
    assert cached(take((tmp_path / "disk.raw").read_bytes())) == DISK


def test_a_cd_that_is_a_disk_too_is_one(take):
    content = bytes(510) + b"\x55\xaa" + ARCHIVES["ISO 9660"][512:]
    assert cached(take(content)) == content


@pytest.mark.parametrize("kind", PACK)
def test_an_initrd_stays_compressed(take, kind):
    packed = PACK[kind](DISK)
    assert cached(take(packed, most_bytes=1 << 30)) == packed


def test_zeros_of_a_raw_image_take_no_room_in_the_cache(take):
    content = b"\x55\xaa" * 4096 + bytes(32 << 20) + b"end" + bytes(4 << 20)
    found = take(content)
    assert cached(found) == content and os.stat(found["path"]).st_blocks * 512 < 1 << 20


def test_a_checksum_may_be_sha512(take, pool):
    stated = "sha512:" + hashlib.sha512(DISK).hexdigest()
    path = take(DISK, checksum=stated)["path"]
    os.utime(path)
    assert take(DISK, checksum=stated)["fetched"] is False
    with pytest.raises(ImageInvalid, match="does not match the checksum"):
        take(DISK, checksum="sha512:" + "0" * 128)


# ---- lists


HEX = {kind: hashlib.new(kind, DISK).hexdigest() for kind in ("sha256", "sha512")}


@pytest.mark.parametrize(
    "text, kind",
    [
        ("%s  guest.img\n" % HEX["sha512"], "sha512"),
        ("%s  other.img\n%s *guest.img\n" % ("0" * 64, HEX["sha256"]), "sha256"),
        ("# comment\n-----BEGIN PGP SIGNED MESSAGE-----\n%s  ./guest.img\n" % HEX["sha256"], "sha256"),
        ("SHA256 (guest.img) = %s\nSHA512 (x) = %s\n" % (HEX["sha256"], "0" * 128), "sha256"),
        ("SHA512 (guest.img) = %s\n" % HEX["sha512"].upper(), "sha512"),
        (HEX["sha512"] + "\n", "sha512"),
        ("%s  other.img\n" % HEX["sha256"], None),
        ("%s\n%s\n" % (HEX["sha256"], "0" * 64), None),
        ("%s  guest.img\n" % ("0" * 32), None),
        ("<html>guest.img</html>", None),
        ("", None),
    ],
)
def test_a_list_of_checksums_is_read_as_sha256sum_and_bsd_write_it(text, kind):
    assert checksum.find(text, "guest.img") == (kind and "%s:%s" % (kind, HEX[kind]))


@pytest.fixture
def web():
    """A server, and the headers and addresses that it was asked with; it refuses Python's library."""

    class Handler(http.server.BaseHTTPRequestHandler):
        asked, files = [], {}

        def do_GET(self):
            self.asked.append((self.path, self.headers["User-Agent"]))
            body = self.files.get(self.path.partition("?")[0].rpartition("/")[2])
            if body is None or "urllib" in self.headers["User-Agent"]:
                return self.send_error(403)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "http://127.0.0.1:%d/" % server.server_port, Handler
    server.shutdown()
    server.server_close()


def test_an_image_has_the_checksum_that_the_publishers_list_has_for_it(web, take):
    url, server = web
    server.files.update({"guest.img": DISK, "SUMS": b"%s  guest.img\n" % HEX["sha512"].encode()})
    stated = checksum.of_file(url + "SUMS", url + "guest.img?token=x")
    assert cached(take(b"", url=url + "guest.img?token=x", checksum=stated)) == DISK
    asked = len(server.asked)
    assert take(b"", url=url + "guest.img", checksum=stated)["fetched"] is False and len(server.asked) == asked
    server.files["SUMS"] = b"%s  other.img\n" % HEX["sha512"].encode()
    with pytest.raises(ImageInvalid, match="has no checksum of second.img"):
        take(b"", url=url + "second.img", checksum=url + "SUMS#second.img")
    server.files["SUMS"] = b"%s  second.img\n" % (b"0" * 64)
    server.files["second.img"] = DISK
    with pytest.raises(ImageInvalid, match="does not match the checksum"):
        take(b"", url=url + "second.img", checksum=url + "SUMS#second.img")


# ---- servers


@pytest.mark.follows("server_refuses")
def test_a_server_is_asked_under_a_name_of_our_own_and_one_that_refuses_is_explained(web, take, pool, tmp_path):
    url, server = web
    server.files["guest.img"] = DISK
    take(b"", url=url + "guest.img", checksum="sha256:" + HEX["sha256"])
    assert server.asked == [("/guest.img", "berth.kvm/" + COLLECTION_VERSION)]
    with pytest.raises(ImageUrlDead, match="says 403") as caught:
        take(b"", url=url + "none.img")
    assert "refuse programs" in caught.value.hint
    (tmp_path / "by-browser").write_bytes(b"\1" * 512)
    wanted = {"name": "guest", "url": None, "disk_format": "raw"}
    wanted["checksum"] = "sha256:" + hashlib.sha256(b"\1" * 512).hexdigest()
    image.take_in(pool, wanted, str(tmp_path / "by-browser"), 0, HostSettings())
    assert image.is_cached(pool, wanted)


def test_a_download_goes_through_the_proxy_of_the_hosts_settings(web, pool, monkeypatch):
    url, server = web
    server.files["guest.img"] = DISK
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    wanted = {
        "name": "guest",
        "url": "http://192.0.2.1/guest.img",
        "disk_format": "raw",
        "checksum": "sha256:" + HEX["sha256"],
    }
    assert cached(image.ensure(pool, wanted, 0, HostSettings(image_proxy=url))) == DISK
    assert server.asked[0][0] == "http://192.0.2.1/guest.img"


def test_without_that_setting_it_goes_through_the_proxy_of_the_environment(web, pool, monkeypatch):
    url, server = web
    server.files["guest.img"] = DISK
    monkeypatch.setenv("http_proxy", url)
    wanted = {
        "name": "guest",
        "url": "http://192.0.2.1/guest.img",
        "disk_format": "raw",
        "checksum": "sha256:" + HEX["sha256"],
    }
    assert cached(image.ensure(pool, wanted, 0, HostSettings())) == DISK


def test_what_unpacks_gives_no_more_than_it_is_asked_for_at_once():
    packed = {"xz": lzma.compress(bytes(1 << 24)), "gzip": zlib.compress(bytes(1 << 24), wbits=31)}
    for kind, data in packed.items():
        pieces = [len(piece) for piece in image.Unpacker(kind, 4096).feed(data)]
        assert max(pieces) <= 4096 and sum(pieces) == 1 << 24
