# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Web servers of images that lie about length, content and place: the cache gets the whole image of the catalog or nothing."""

from __future__ import annotations

import datetime
import hashlib
import http.server
import ipaddress
import os
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import ImageInvalid, ImageUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings

CONTENT = b"\x55\xaa" * (1 << 16)
WHOLE = str(len(CONTENT))


class Server:
    """``answers``: path -> (status, {header: value}, body); the last of a list of them stays. ``asked``: the headers of each request."""

    def __init__(self, context=None):
        self.answers, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(dict(self.headers))
                left = outer.answers[self.path]
                status, headers, body = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = "%s://127.0.0.1:%d" % ("https" if context else "http", self.server.server_port)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def secure(tmp_path):
    """A server with TLS and the file of the authority that it is to be trusted by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "images")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = made.add_extension(address, False).sign(key, hashes.SHA256())
    certificate, both = tmp_path / "certificate.pem", tmp_path / "both.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    both.write_bytes(certificate.read_bytes() + key.private_bytes(*form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server = Server(context)
    server.authority = str(certificate)
    yield server
    server.close()


@pytest.fixture
def fetch(tmp_path):
    """fetch(url) -> whether the image was downloaded; ``fetch.left()`` is what the cache has."""
    pool = tmp_path / "pool"
    pool.mkdir(mode=0o711)
    wanted = {"name": "guest", "checksum": "sha256:" + hashlib.sha256(CONTENT).hexdigest(), "disk_format": "raw"}

    def act(url, root_gb=0):
        return image.ensure(str(pool), {**wanted, "url": url}, root_gb, HostSettings())["fetched"]

    act.left = lambda: os.listdir(pool / "images")
    return act


def test_a_redirection_in_a_loop_ends_and_is_told_as_one(server, fetch):
    server.answers["/a"] = [(302, {"Location": "/b"}, b"")]
    server.answers["/b"] = [(301, {"Location": "/a"}, b"")]
    with pytest.raises(ImageUnavailable, match="redirection 302 leads nowhere"):
        fetch(server.url + "/a")
    assert len(server.asked) < 15 and fetch.left() == []


def test_a_redirection_without_a_place_is_told_as_one(server, fetch):
    server.answers["/a"] = [(302, {}, b"")]
    with pytest.raises(ImageUnavailable, match="redirection 302 leads nowhere"):
        fetch(server.url + "/a")


def test_a_redirection_to_https_is_followed_if_the_server_is_trusted(server, secure, fetch, monkeypatch):
    server.answers["/a"] = [(302, {"Location": secure.url + "/image"}, b"")]
    secure.answers["/image"] = [(200, {"Content-Length": WHOLE}, CONTENT)]
    with pytest.raises(ImageUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(server.url + "/a")
    assert fetch.left() == []
    monkeypatch.setenv("SSL_CERT_FILE", secure.authority)
    assert fetch(server.url + "/a") and len(fetch.left()) == 1


@pytest.mark.parametrize("status", [204, 206])
def test_only_the_whole_image_is_an_answer(server, fetch, status):
    """Such as 206, a part; what the catalog says of the whole says nothing of it, so another host may do better."""
    part = b"" if status == 204 else CONTENT[:1000]
    server.answers["/a"] = [(status, {"Content-Length": str(len(part))}, part)]
    with pytest.raises(ImageUnavailable, match="the server says %d" % status) as caught:
        fetch(server.url + "/a")
    assert caught.value.retryable and fetch.left() == []
    server.answers["/a"] = [(203, {"Content-Length": WHOLE}, CONTENT)]
    assert fetch(server.url + "/a"), "a proxy may say 203"


def test_a_download_that_broke_off_begins_anew_and_asks_for_no_part(server, fetch):
    server.answers["/a"] = [(200, {"Content-Length": WHOLE}, CONTENT[:1000]), (200, {"Content-Length": WHOLE}, CONTENT)]
    with pytest.raises(ImageUnavailable, match="broke off after 1000 of %s bytes" % WHOLE):
        fetch(server.url + "/a")
    assert fetch(server.url + "/a") and not [asked for asked in server.asked if "Range" in asked]


@pytest.mark.parametrize(
    "length, error",
    [
        ("10", ImageInvalid),  # the rest is no part of the answer
        (str(len(CONTENT) + 1), ImageUnavailable),
        (str(1 << 62), ImageUnavailable),  # no pool has room for it
    ],
)
def test_a_length_that_is_a_lie_puts_nothing_into_the_cache(server, fetch, length, error):
    server.answers["/a"] = [(200, {"Content-Length": length}, CONTENT)]
    with pytest.raises(error):
        fetch(server.url + "/a")
    assert fetch.left() == []


@pytest.mark.parametrize(
    "length", [None, "-1", "many", "9" * 40, "\N{ARABIC-INDIC DIGIT ONE}".encode().decode("latin-1")]
)
def test_without_a_length_that_is_a_number_all_that_comes_is_read_and_proven(server, fetch, length):
    server.answers["/a"] = [(200, {} if length is None else {"Content-Length": length}, CONTENT)]
    assert fetch(server.url + "/a") and len(fetch.left()) == 1


def test_content_that_changes_between_two_downloads_is_refused_and_what_is_cached_stays(server, fetch):
    other = (200, {"Content-Length": WHOLE}, CONTENT[::-1][:-1] + b"x")
    server.answers["/a"] = [other, (200, {"Content-Length": WHOLE}, CONTENT), other]
    with pytest.raises(ImageInvalid, match="does not match the checksum"):
        fetch(server.url + "/a")
    assert fetch.left() == []
    assert fetch(server.url + "/a") and not fetch(server.url + "/a"), "it is not downloaded again"
    assert len(server.asked) == 2 and len(fetch.left()) == 1
