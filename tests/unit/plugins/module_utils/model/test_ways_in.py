# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that let nobody in, and instances without a way in."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ansible_collections.berth.kvm.plugins.module_utils.model import ways_in

SSH = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
MADE = {
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "rsa": rsa.generate_private_key(65537, 2048),
    "ecdsa": ec.generate_private_key(ec.SECP256R1()),
}
KEYS = {kind: key.public_key().public_bytes(*SSH).decode() for kind, key in MADE.items()}
SHORT = rsa.generate_private_key(65537, 1024)


def packed(*parts):
    return base64.b64encode(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).decode()


SECURITY_KEY = "sk-ssh-ed25519@openssh.com"
CERTIFICATE = "ssh-ed25519-cert-v01@openssh.com"


@pytest.mark.parametrize(
    "line",
    [
        *KEYS.values(),
        KEYS["ed25519"] + " me@here",
        "%s %s" % (SECURITY_KEY, packed(SECURITY_KEY.encode(), b"k" * 32, b"ssh:")),
        "%s %s" % (CERTIFICATE, packed(CERTIFICATE.encode(), b"nonce") + packed(b"x" * 29)),
        SHORT.public_key().public_bytes(*SSH).decode(),
    ],
    ids=lambda line: line[:30],
)
def test_a_key_that_is_whole_has_no_fault(line):
    assert ways_in.key_fault(line) is None


@pytest.mark.parametrize(
    "line, says",
    [
        ("ssh-rsa A", "cut off"),
        ("ssh-ed25519 AAAA", "cut off"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "cut off"),
        (KEYS["ed25519"][:-8], "cut off"),
        (KEYS["rsa"][:-40], "cut off"),
        (KEYS["ed25519"] + "AAAA", "cut off"),
        (KEYS["ed25519"].replace("ssh-ed25519", "ssh-rsa"), "of the type"),
        ("ssh-ed25519 " + packed(b"ssh-ed25519"), "cut off"),
        ("ssh-ed25519 " + packed(b"ssh-ed25519", b"k" * 31), "cut off"),
        ("ssh-rsa " + packed(b"ssh-rsa", b"\1\0\1", b"\x7f" + b"n" * 63), "1024 bits"),
        ("ssh-dss " + packed(b"ssh-dss", b"p", b"q", b"g", b"y"), "ssh-dss"),
    ],
    ids=lambda text: text[:12],  # the keys are new in each process
)
def test_a_key_by_which_nobody_can_log_in_has_one(line, says):
    assert says in ways_in.key_fault(line)


SPEC = {"flavor": {}, "image": {}, "networks": [{}]}
AGENT = {"properties": {"hw_qemu_guest_agent": "yes"}}


@pytest.mark.parametrize(
    "spec, seed, is_open",
    [
        (SPEC, {}, False),
        (SPEC, {"ssh_keys": ["ssh-rsa A"]}, False),
        (SPEC, {"cloud_config": '{"write_files": []}'}, False),
        (SPEC, {"ssh_keys": ["ssh-rsa A", KEYS["ed25519"]]}, True),
        (SPEC, {"user_data": "#!/bin/sh"}, True),
        (SPEC, {"cloud_config": '{"user": {"hashed_passwd": "x"}}'}, True),
        ({**SPEC, "image": AGENT}, {}, True),
        ({**SPEC, "volumes": [{"name": "os", "boot_index": 0}]}, {}, True),
    ],
    ids=lambda part: str(part)[:24],
)
def test_a_key_that_is_whole_a_password_user_data_or_an_agent_is_a_way_in(spec, seed, is_open):
    assert any("unless the image has an account" in said for said in ways_in.lacks(spec, seed)) is not is_open


def test_what_many_instances_lack_is_said_once():
    [line] = ways_in.warnings({"vm%02d" % at: ["no network interface."] for at in range(12)})
    assert line.startswith("vm00, vm01,") and line.endswith("vm09 and 2 more: no network interface.")
