# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request brings into its guest beside the user data: files, a password's hash, keys by name, a root that grows."""

from __future__ import annotations

import base64
import copy
import json

import pytest
import yaml
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import seed as seeds
from ansible_collections.berth.kvm.plugins.module_utils.model import request_shape
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request, resize_request

SHA512 = "$6$rounds=5000$saltsalt$" + "A" * 86
YESCRYPT = "$y$j9T$" + "S" * 22 + "$" + "B" * 43
KEY, OTHER = "ssh-ed25519 AAAAC3Nz ops", "ssh-ed25519 AAAAC3Nx web"


def build(catalog=None, properties=None, **instance):
    given = {**copy.deepcopy(variables()), **(catalog or {})}
    given["berth_images"]["debian-12"]["properties"] = properties or {}
    asked = {"inventory_hostname": "web-1", "berth_flavor": "m1.tiny", "berth_image": "debian-12", **instance}
    return build_request(asked, Catalog.from_variables(given))


def vendor_data(**given):
    """The vendor data of the seed as a YAML parser reads it."""
    spec, seed = build(**given)
    text = seeds.documents(spec["uuid"], seed).get("vendor-data", b"{}").decode()
    return yaml.safe_load(text)


def refusal(**given):
    with pytest.raises(BerthError) as caught:
        build(**given)
    return caught.value


def file(path="/etc/motd", content="hello", **more):
    return {"path": path, "content": content, **more}


# ---- files


@pytest.mark.parametrize(
    "content", ["", "a: yes\n", "\u00e9\U0001f600\u2028", "{{ not jinja }}", "\x00\x01", "x" * 100000]
)
def test_a_file_arrives_byte_by_byte(content):
    written = vendor_data(berth_files=[file(content=content)])["write_files"][0]
    assert base64.b64decode(written["content"]) == content.encode()
    assert (written["path"], written["encoding"]) == ("/etc/motd", "b64")
    assert (written["permissions"], written["owner"], "defer" in written) == ("0644", "root:root", False)


def test_binary_content_is_given_in_base64():
    blob = bytes(range(256))
    given = file(content=base64.encodebytes(blob).decode(), encoding="base64", mode="0400")
    written = vendor_data(berth_files=[given])["write_files"][0]
    assert base64.b64decode(written["content"]) == blob and written["permissions"] == "0400"


def test_a_file_of_another_user_waits_until_there_are_users():
    written = vendor_data(berth_files=[file(owner="debian"), file("/b", owner="root:adm")])["write_files"]
    assert [(each["owner"], each.get("defer")) for each in written] == [("debian:debian", True), ("root:adm", None)]


@pytest.mark.parametrize(
    "path",
    ["../x", "/a/../b", "/a//b", "//a", "/a/", "/", "a", "", "/a\nb", "/" + "x" * 300, "/a/.", None, 7, "/a\x00b"],
)
def test_a_path_that_is_not_plain_and_absolute_is_refused(path):
    assert refusal(berth_files=[file(path)]).field == "berth_files[0].path"


@pytest.mark.parametrize("second", ["/etc/motd", "/etc/motd/x"])
def test_no_path_is_given_twice_or_below_another(second):
    files = [file(), file(second)]
    assert "each path once" in str(refusal(berth_files=files))
    assert "each path once" in str(refusal(berth_files=files[::-1]))


@pytest.mark.parametrize(
    "given, field",
    [
        ({"berth_files": "CANARY"}, "berth_files"),
        ({"berth_files": ["CANARY"]}, "berth_files[0]"),
        ({"berth_files": {"/etc/motd": "CANARY"}}, "berth_files"),
        ({"berth_files": [{"path": "/a", "contnet": "CANARY"}]}, "berth_files[0].contnet"),
        ({"berth_files": [file(content=["CANARY"])]}, "berth_files[0].content"),
        ({"berth_files": [file(content="CANARY!", encoding="base64")]}, "berth_files[0].content"),
        ({"berth_files": [file(content="CANARY\ud800")]}, "berth_files[0].content"),
        ({"berth_files": [file(content="CANARY", mode=420)]}, "berth_files[0].mode"),
        ({"berth_files": [file(content="CANARY", owner="a b")]}, "berth_files[0].owner"),
        ({"berth_files": [file("/%d" % at, "CANARY") for at in range(65)]}, "berth_files"),
        ({"berth_files": [file(content="CANARY" * 200000)]}, "berth_files"),
        ({"berth_admin_password_hash": "CANARY"}, "berth_admin_password_hash"),
        ({"berth_admin_password_hash": ["CANARY"]}, "berth_admin_password_hash"),
        ({"berth_admin_password_hash": "$1$CANARY$" + "x" * 22}, "berth_admin_password_hash"),
        ({"berth_admin_password_hash": SHA512 + "\nCANARY"}, "berth_admin_password_hash"),
        ({"berth_admin_password": "CANARY"}, "berth_admin_password"),
    ],
    ids=str,
)
def test_a_fault_names_the_field_and_never_shows_what_may_be_secret(given, field):
    error = refusal(**given)
    assert field in [fault.field for fault in (error, *error.also)]
    assert "CANARY" not in json.dumps(error.to_result())


# ---- password


@pytest.mark.parametrize("password", [SHA512, SHA512.replace("rounds=5000$", ""), YESCRYPT])
def test_the_hash_of_a_password_is_the_first_users(password):
    assert vendor_data(berth_admin_password_hash=password)["user"] == {"hashed_passwd": password, "lock_passwd": False}


def test_files_and_hash_are_in_the_seed_alone():
    given = {"berth_files": [file(content="CANARY")], "berth_admin_password_hash": SHA512}
    spec, seed = build(**given)
    assert "/etc/motd" not in json.dumps(spec) and SHA512 not in json.dumps(spec)
    assert SHA512 in seed["cloud_config"]


# ---- one place for one thing


TWICE = [
    ("berth_files", [file()], "write_files"),
    ("berth_admin_password_hash", SHA512, "user"),
    ("berth_disk_config", "manual", "growpart"),
    ("berth_disk_config", "auto", "resize_rootfs"),
]


@pytest.mark.parametrize("variable, value, key", TWICE, ids=str)
@pytest.mark.parametrize(
    "text",
    [
        "#cloud-config\n%s: []\n",
        "#cloud-config\npackages: [a]\n'%s': []\n",
        '#cloud-config\n{"%s": []}\n',
        "## template: jinja\n#cloud-config\n%s: []\n",
        "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/cloud-config\n\n#cloud-config\n%s: []\n--b--\n",
    ],
)
def test_what_the_user_data_would_replace_is_refused(variable, value, key, text):
    error = refusal(**{variable: value, "berth_user_data": text % key})
    assert (error.code, error.field) == ("InvalidInput", "berth_user_data")
    assert variable in str(error) and key in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\nwrite_files: no\n",
        "#cloud-config\nruncmd:\n - 'write_files: x'\n  write_files: x\n",
        "#include\nhttps://x/",
    ],
)
def test_user_data_stays_as_it_was_given_beside_files(text):
    spec, seed = build(berth_files=[file()], berth_user_data=text)
    assert seeds.documents(spec["uuid"], seed)["user-data"] == text.encode()


@pytest.mark.parametrize("text", ['{"ignition": {"version": "3.3.0"}}', "version: v1alpha1\nmachine: {type: worker}\n"])
@pytest.mark.parametrize("variable, value", [each[:2] for each in TWICE], ids=str)
def test_what_only_cloud_init_does_is_refused_beside_user_data_of_another_platform(variable, value, text):
    assert refusal(**{variable: value, "berth_user_data": text}).field == variable


def test_only_a_guest_with_ignition_is_shown_its_config_by_qemu():
    assert build(berth_user_data='{"ignition": {"version": "3.3.0"}}')[0]["ignition"] is True
    assert "ignition" not in build(berth_user_data="#cloud-config\n{}")[0]


# ---- the root disk


@pytest.mark.parametrize(
    "asked, image, expected",
    [
        (None, {}, None),
        ("auto", {}, True),
        ("manual", {}, False),
        (None, {"hw_auto_disk_config": "true"}, True),
        (None, {"hw_auto_disk_config": False}, False),
        (None, {"auto_disk_config": "Disabled"}, False),
        ("auto", {"hw_auto_disk_config": "false"}, True),
        ("manual", {"hw_auto_disk_config": "disabled"}, False),
    ],
)
def test_the_root_grows_as_instance_and_image_say(asked, image, expected):
    given = {"berth_disk_config": asked} if asked else {}
    config = vendor_data(properties=image, **given)
    assert config.get("resize_rootfs") is expected
    assert config.get("growpart") == {None: None, True: {"mode": "auto"}, False: {"mode": "off"}}[expected]


def test_an_image_forbids_that_its_root_grows():
    error = refusal(properties={"hw_auto_disk_config": "disabled"}, berth_disk_config="auto")
    assert (error.code, error.field) == ("AutoDiskConfigDisabledByImage", "berth_disk_config")


# ---- key pairs


PAIRS = {"berth_keypairs_defined": {"ops": KEY, "web": {"public_key": OTHER}}}


def test_keys_by_name_come_before_those_given_and_each_once():
    _spec, seed = build(PAIRS, berth_key_names=["ops", "web"], berth_ssh_keys=[OTHER, "ssh-rsa AAAA me"])
    assert seed["ssh_keys"] == [KEY, OTHER, "ssh-rsa AAAA me"]
    assert build(PAIRS, berth_key_names="ops")[1]["ssh_keys"] == [KEY]


def test_all_unknown_key_pairs_are_named_with_what_was_meant():
    error = refusal(catalog=PAIRS, berth_key_names=["opss", "webb"])
    assert [(fault.code, fault.hint) for fault in (error, *error.also)] == [
        ("KeypairNotFound", "Did you mean ops?"),
        ("KeypairNotFound", "Did you mean web?"),
    ]


@pytest.mark.parametrize(
    "key", ['command="/bin/sh" ' + KEY, KEY + "\nssh-rsa AAAA evil", "-----BEGIN PRIVATE KEY-----CANARY", "", None, {}]
)
def test_a_key_pair_is_one_public_key_without_options(key):
    error = refusal(catalog={"berth_keypairs_defined": {"ops": {"public_key": key}}})
    assert error.field == "berth_keypairs_defined.ops.public_key" and "CANARY" not in str(error.to_result())


def test_a_key_pair_that_is_not_defined_any_more_holds_up_no_move():
    spec, _seed = build(PAIRS, berth_key_names="ops")
    without = Catalog.from_variables(variables())
    assert resize_request(spec, {"berth_flavor": "m1.small", "berth_key_names": "ops"}, without)["flavor"]["vcpus"] == 2


# ---- metadata


STRANGE = {
    "plain": "yes", "number": "1e3", "nothing": "null", "octal": "0755", "colon": "a: [b", "lines": "b\nc\td", "empty": "",
    "emoji \U0001f600": "\U0001f600", "bidi": "a\u202eb", "break": "a\u2028b\x85c", "mark": "\ufeff", "quote": '"\\ud83d\\"',
}  # fmt: skip


def test_metadata_is_what_a_yaml_parser_in_the_guest_reads():
    spec, seed = build(berth_metadata=STRANGE)
    assert spec["metadata"] == STRANGE
    read = yaml.safe_load(seeds.documents(spec["uuid"], seed)["meta-data"].decode())
    assert read["berth-metadata"] == STRANGE
    assert (read["instance-id"], read["local-hostname"]) == (spec["uuid"], "web-1")


def test_values_that_are_not_text_become_it():
    given = {"flag": True, "number": 3, "part": 0.5}
    assert build(berth_metadata=given)[1]["metadata"] == {"flag": "true", "number": "3", "part": "0.5"}


@pytest.mark.parametrize(
    "given", [{"a": None}, {"a": []}, {"a": {}}, {"a": "\ud800"}, {"a": "x" * 256}, {"": "a"}, ["a"], "a", {1: "a"},
              {str(at): "" for at in range(1001)}, {str(at): "x" * 255 for at in range(300)}], ids=lambda given: str(given)[:20],
)  # fmt: skip
def test_metadata_that_is_not_names_and_texts_is_refused(given):
    assert refusal(berth_metadata=given).field.startswith("berth_metadata")


# ---- images


@pytest.mark.parametrize(
    "source, field",
    [
        ({"upload": "/srv/a.img"}, "url"),
        ({"url": None}, "url"),
        ({"url": None, "upload": "a.img"}, "upload"),
        ({"url": None, "upload": "/srv/../a.img"}, "upload"),
        ({"url": None, "upload": "/srv/"}, "upload"),
        ({"url": None, "upload": 7}, "upload"),
    ],
    ids=str,
)
def test_an_image_has_a_url_or_is_uploaded(source, field):
    images = copy.deepcopy(variables()["berth_images"])
    images["debian-12"].update(source)
    assert refusal(catalog={"berth_images": images}).field == "berth_images.debian-12." + field


def test_an_image_that_is_uploaded_says_so_in_its_request():
    images = copy.deepcopy(variables()["berth_images"])
    images["debian-12"].update(url=None, upload="/srv/my images/a.img")
    spec, _seed = build({"berth_images": images})
    assert (spec["image"]["url"], spec["image"]["upload"]) == (None, "/srv/my images/a.img")
    assert request_shape.request(spec) == spec
    assert "upload" not in build()[0]["image"]


# ---- numbers


@pytest.mark.parametrize("name, value", [("hw:mem_page_size", "\u00b2"), ("pci_passthrough:alias", "gpu:\u00b2")])
def test_a_digit_that_is_no_number_is_refused_by_the_name_of_its_extra_spec(name, value):
    """Python calls a raised 2 a digit, and fails to make a number of it."""
    flavors = copy.deepcopy(variables()["berth_flavors"])
    flavors["m1.tiny"]["extra_specs"] = {name: value}
    assert name in str(refusal(catalog={"berth_flavors": flavors}))
