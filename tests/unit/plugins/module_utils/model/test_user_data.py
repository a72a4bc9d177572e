# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User data: whose it is, and that nothing of ours stands in its way."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import cloud_init
from ansible_collections.berth.kvm.plugins.module_utils.model.cloud_init import (
    CLOUD_INIT,
    CLOUDBASE_INIT,
    IGNITION,
    TALOS,
    InstanceUserDataMalformed,
    InstanceUserDataTooLarge,
    cloud_configs,
    decode_user_data,
    kind,
)

CLOUD = "#cloud-config\nhostname: x\n"
IGN = json.dumps({"ignition": {"version": "3.3.0"}, "passwd": {"users": [{"name": "core"}]}})
MIME = (
    "Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n\n--b\nContent-Type: text/cloud-config\n\n%s--b--\n"
    % CLOUD
)
PLATFORMS = [
    (CLOUD, CLOUD_INIT),
    ("#!/bin/sh\n", CLOUD_INIT),
    ("#include\nhttps://x/", CLOUD_INIT),
    ("#cloud-boothook\n", CLOUD_INIT),
    ("#cloud-config-archive\n[]", CLOUD_INIT),
    ("## template: jinja\n#cloud-config\nfqdn: {{ ds.meta_data.x }}\n", CLOUD_INIT),
    (MIME, CLOUD_INIT),
    ("\n" + IGN, IGNITION),
    (json.dumps(json.loads(IGN), indent=1), IGNITION),
    ("version: v1alpha1\nmachine: {type: worker}\n", TALOS),
    ("# made by talosctl\n---\nversion: v1alpha1 # the schema\ndebug: false\nmachine:\n  type: worker\n", TALOS),
    ("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x\n", TALOS),
    ("#ps1_sysnative\nWrite-Output x\n", CLOUDBASE_INIT),
    ("<powershell>\n</powershell>", CLOUDBASE_INIT),
    ("rem cmd\necho x", CLOUDBASE_INIT),
]


@pytest.mark.parametrize("text, whose", PLATFORMS)
def test_user_data_of_each_platform_reaches_it_as_it_is(text, whose):
    assert kind(text) == whose and decode_user_data(text) == text
    assert decode_user_data(base64.encodebytes(text.encode()).decode()) == text
    assert decode_user_data(base64.b64encode(gzip.compress(text.encode())).decode()) == text


def test_base64_of_gzip_is_unpacked_as_terraform_gives_it():
    given = "H4sIAAAAAAACA1NOzskvTdFNzs9Ly0znUlbISUzSzU0syk4tslKoyiwoSE3hKkhMzk5MTy22Uoguy8yN5QIAoJ/jATMAAAA="
    assert decode_user_data(given).startswith("#cloud-config\n") and cloud_configs(decode_user_data(given))


def test_a_part_in_gzip_is_looked_into_for_its_keys():
    part = base64.encodebytes(gzip.compress(CLOUD.encode())).decode()
    text = MIME.replace(
        "text/cloud-config\n\n" + CLOUD, "application/gzip\nContent-Transfer-Encoding: base64\n\n" + part
    )
    assert cloud_configs(text) == [CLOUD]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[:20] + b"x" + data[21:]], ids=["cut", "changed"]
)
def test_gzip_that_is_damaged_is_refused(damage):
    with pytest.raises(InstanceUserDataMalformed):
        decode_user_data(base64.b64encode(damage(gzip.compress(CLOUD.encode() * 9))).decode())


def test_no_more_is_unpacked_than_is_sent_to_a_host():
    bomb = gzip.compress(b"#cloud-config\n" + bytes(cloud_init.MOST_UNPACKED))
    with pytest.raises(InstanceUserDataTooLarge, match="unpacked"):
        decode_user_data(base64.b64encode(bomb).decode())


BUTANE = "variant: fcos\nversion: 1.5.0\npasswd: {users: [{name: core}]}\n"


@pytest.mark.follows("compile_butane")
@pytest.mark.parametrize("text", [BUTANE, "# mine\n" + BUTANE, base64.b64encode(BUTANE.encode()).decode()])
def test_butane_is_refused_with_how_it_is_compiled(text):
    with pytest.raises(InstanceUserDataMalformed, match="Butane") as caught:
        decode_user_data(text)
    assert "butane --strict" in caught.value.hint and "cloud-config" not in caught.value.hint
    printed = '{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core"}]}}\n'
    assert decode_user_data(printed) == printed


@pytest.mark.parametrize("text", ["# mine\n#cloud-config\na: 1\n", "#cloud_config\n#cloud-config\na: 1\n"])
def test_a_header_that_is_not_first_is_refused(text):
    with pytest.raises(InstanceUserDataMalformed, match="first line"):
        decode_user_data(text)


@pytest.mark.parametrize(
    "text", ['{"ignition": {"version": "3.3.0"}', '{"ignition": {}}', '{"packages": []}', "{" * 100000]
)
def test_json_of_no_platform_is_refused_without_a_hint_that_would_break_it(text):
    with pytest.raises(InstanceUserDataMalformed) as caught:
        decode_user_data(text)
    assert caught.value.hint is None


@pytest.mark.follows("user_data_is_text")
def test_a_mapping_is_refused_with_how_it_becomes_text():
    given = {"ignition": {"version": "3.3.0", "x": "CANARY"}}
    with pytest.raises(InstanceUserDataMalformed) as caught:
        decode_user_data(given)
    assert kind(decode_user_data(json.dumps(given))) == IGNITION
    assert "to_json" in caught.value.hint and "CANARY" not in str(caught.value.to_result())
