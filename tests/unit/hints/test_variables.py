# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about variables: after doing what each says the same input is accepted."""

from __future__ import annotations

import base64
import json
import re
import subprocess

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request, rescue_image

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJlcnRoLWt2bS1leGFtcGxlLWtleS0wMDAwMDAwMDA web"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----"


def catalog(**flavor):
    return {
        "berth_flavors": {"small": {"vcpus": 1, "memory_mb": 512, "root_gb": 1, **flavor}},
        "berth_images": {
            "debian": {"url": "https://x/d.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}
        },
    }


def build(variables=None, **instance):
    given = {"inventory_hostname": "web-1", "berth_flavor": "small", "berth_image": "debian", **instance}
    return build_request(given, Catalog.from_variables(variables or catalog()))


def refusal(*given, **instance):
    with pytest.raises(BerthError) as refused:
        build(*given, **instance)
    return refused.value


@pytest.mark.follows("plain_name")
def test_a_host_name_without_dots_is_a_name_for_an_instance():
    assert refusal(inventory_hostname="web_1").hint == input_hints.plain_name()
    assert build(inventory_hostname="web-1")[0]["name"] == "web-1"


@pytest.mark.follows("public_key")
def test_the_content_of_the_pub_file_is_a_key_and_the_private_one_is_never_shown():
    refused = refusal(berth_ssh_keys=[PRIVATE])
    assert refused.hint == input_hints.public_key() and "c2VjcmV0" not in str(refused)
    assert build(berth_ssh_keys=[PUBLIC])[1]["ssh_keys"] == [PUBLIC]


@pytest.mark.parametrize("path", ["~/.ssh/id.pub", "/root/.ssh/id.pub", "./id.pub"])
def test_the_path_of_a_key_is_no_key_and_the_hint_is_how_to_read_it(path):
    refused = refusal(berth_ssh_keys=[path])
    assert refused.hint == input_hints.public_key() and path in str(refused)


@pytest.mark.follows("remove_quotes")
def test_a_number_without_quotes_is_a_number():
    assert refusal(catalog(vcpus="2")).hint == input_hints.remove_quotes()
    assert build(catalog(vcpus=2))[0]["flavor"]["vcpus"] == 2


@pytest.mark.follows("true_without_quotes")
def test_a_truth_value_without_quotes_is_one():
    def networks(port_security):
        lan = {"type": "bridge", "source": "br0", "port_security": port_security}
        return {**catalog(), "berth_networks_defined": {"lan": lan}}

    assert refusal(networks("false")).hint == input_hints.true_without_quotes()
    assert build(networks(False), berth_networks=["lan"])


@pytest.mark.follows("no_structure_in_text")
def test_a_list_or_mapping_that_an_ini_inventory_left_as_text_is_no_name():
    network = {"berth_networks_defined": {"lan": {"type": "bridge", "source": "br0"}}}
    text = '[{"network": "lan", "port_security": false}]'
    assert refusal({**catalog(), **network}, berth_networks=text).hint == input_hints.no_structure_in_text()
    assert build({**catalog(), **network}, berth_networks=[{"network": "lan", "port_security": False}])
    for variable in ("berth_flavors", "berth_quotas"):
        assert refusal({**catalog(), variable: "{'small': {}}"}).hint == input_hints.no_structure_in_text()


@pytest.mark.follows("list_with_e")
@pytest.mark.parametrize("given", ["lan,dmz", '["lan", "dmz"]'])
def test_a_list_that_is_text_with_e_is_one_as_json(given):
    networks = {each: {"type": "bridge", "source": each} for each in ("lan", "dmz")}
    refused = refusal({**catalog(), "berth_networks_defined": networks}, berth_networks=given)
    assert input_hints.list_with_e() in refused.hint
    written = json.loads(re.search("-e '(.*?)'", refused.hint)[1].replace('"a", "b"', '"lan", "dmz"'))
    assert build({**catalog(), "berth_networks_defined": networks}, berth_networks=written["NAME"])


@pytest.mark.follows("add_field")
def test_a_field_that_was_missing_is_taken_once_it_is_there():
    without = catalog()
    del without["berth_flavors"]["small"]["root_gb"]
    assert refusal(without).hint == input_hints.add_field("berth_flavors.small.root_gb")
    without["berth_flavors"]["small"]["root_gb"] = 3
    assert build(without)[0]["flavor"]["root_gb"] == 3


@pytest.mark.follows("set_variable")
def test_a_variable_that_was_missing_is_taken_once_it_is_set():
    assert refusal(berth_image=None).hint == input_hints.set_variable("berth_image", "web-1")
    assert build(berth_image="debian")[0]["image"]["name"] == "debian"


@pytest.mark.follows("content_of_file")
def test_user_data_that_is_the_path_of_a_file_is_taken_as_what_that_file_has(tmp_path):
    file = tmp_path / "cloud.yml"
    file.write_text("#cloud-config\n")
    hint = refusal(berth_user_data=str(file)).hint
    assert hint == input_hints.content_of_file(str(file)) and "lookup('file', '%s')" % file in hint
    assert build(berth_user_data=file.read_text())[1]["user_data"] == "#cloud-config\n"


@pytest.mark.follows("take_cloud_image")
def test_a_cloud_image_is_taken_where_an_iso_is_not():
    iso = catalog()
    iso["berth_images"]["debian"]["disk_format"] = "iso"
    assert refusal(iso).hint == input_hints.take_cloud_image()
    assert rescue_image("debian", "default", Catalog.from_variables(iso))["disk_format"] == "iso"
    assert build(catalog())[0]["image"]["name"] == "debian"


@pytest.mark.follows("cloud_config_first")
@pytest.mark.parametrize(
    "first, text", [("#!/bin/sh\n", "apt-get update\n"), ("#cloud-config\n", "packages: [nginx]\n")]
)
def test_user_data_that_says_in_its_first_line_what_it_is_is_taken_as_it_is(first, text):
    assert refusal(berth_user_data=text).hint == input_hints.cloud_config_first()
    assert build(berth_user_data=first + text)[1]["user_data"] == first + text


@pytest.mark.follows("include_url")
def test_user_data_that_is_too_long_fits_when_it_is_included_by_url():
    long = base64.b64encode(b"#cloud-config\n" + b"#" * 70000).decode()
    assert refusal(berth_user_data=long).hint == input_hints.include_url()
    short = "#include\nhttps://config.example.org/web-1\n"
    assert build(berth_user_data=short)[1]["user_data"] == short


@pytest.mark.follows("hashed_password")
def test_what_openssl_prints_is_taken_for_a_password():
    for given in ({"berth_admin_password": "secret"}, {"berth_admin_password_hash": "secret"}):
        assert refusal(**given).hint == input_hints.hashed_password()
    printed = subprocess.run(["openssl", "passwd", "-6", "secret"], stdout=subprocess.PIPE, check=True).stdout
    assert "hashed_passwd" in build(berth_admin_password_hash=printed.decode().strip())[1]["cloud_config"]


@pytest.mark.follows("in_one_place")
def test_files_of_the_user_data_are_taken_as_injected_files_or_alone():
    file = {"path": "/etc/motd", "content": "hello"}
    text = "#cloud-config\nwrite_files:\n- {path: /b, content: x}\n"
    refused = refusal(berth_files=[file], berth_user_data=text)
    assert refused.hint == input_hints.in_one_place("berth_files", "write_files")
    assert build(berth_files=[file, {"path": "/b", "content": "x"}])[1]["cloud_config"].count("path") == 2
    assert build(berth_user_data=text)[1]["cloud_config"] is None


@pytest.mark.follows("name_each")
@pytest.mark.parametrize("disk", [10, {"size_gb": 10}])
def test_a_disk_of_a_list_that_has_no_name_is_taken_once_it_is_written_as_the_hint_has_it(disk):
    refused = refusal(berth_disks=[disk])
    assert refused.hint == "Write {name: NAME, size_gb: ..., bus: ...}"
    assert build(berth_disks=[{"name": "logs", "size_gb": 10, "bus": "scsi"}])[0]["disks"]


@pytest.mark.follows("delete_it")
@pytest.mark.parametrize("state", ["absent", "deleted"])
def test_who_wants_an_instance_gone_by_its_state_is_told_what_deletes_it(state):
    assert refusal(berth_state=state).hint == fleet_hints.delete_it()


@pytest.mark.parametrize("given, ours", [("running", "active"), (True, "active"), ("off", "stopped")])
def test_the_states_by_their_names_elsewhere_are_told_in_ours(given, ours):
    assert refusal(berth_state=given).hint == "Did you mean %s?" % ours
    assert build(berth_state=ours)


def test_a_field_that_is_meant_by_another_name_is_told_once():
    flavors = {"berth_flavors": {"small": {"cpus": 1, "ram": 512, "disk": 1}}}
    refused = refusal({**catalog(), **flavors})
    assert [each.hint for each in (refused, *refused.also)] == [
        "Did you mean vcpus?",
        "Did you mean memory_mb?",
        "Did you mean root_gb?",
    ]


@pytest.mark.follows("image_by_name")
@pytest.mark.parametrize("place", ["https://x/d.qcow2", "/srv/d.qcow2"])
def test_where_an_image_comes_from_is_no_name_and_under_a_name_it_is_one(place):
    assert refusal(berth_image=place).hint == input_hints.image_by_name()
    image = {"url": place, "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}
    spec = build({**catalog(), "berth_images": {"d": image}}, berth_image="d")[0]
    assert spec["image"]["url"] == place


@pytest.mark.parametrize("line", ["# cloud-config", "#cloud_config", "#Cloud-Config", "#cloud-confg", "#cloud config"])
def test_a_first_line_that_cloud_init_takes_for_a_comment_is_told_and_the_right_one_is_taken(line):
    assert "%s is only a comment to cloud-init" % line in str(refusal(berth_user_data=line + "\npackages: [vim]\n"))
    for right in ("#cloud-config", "#cloud-config-archive", "#cloud-boothook", "#!/bin/sh\n# cloud-config"):
        assert build(berth_user_data=right + "\n")[1]["user_data"]


@pytest.mark.follows("mapping_with_e")
@pytest.mark.parametrize("variable", ["berth_metadata", "berth_hints"])
def test_a_mapping_as_name_and_value_is_told_how_it_is_written_and_that_is_one(variable):
    assert refusal(**{variable: "role=web"}).hint == input_hints.mapping_with_e()
    (given,) = re.findall(r"-e '(.+?)'", input_hints.mapping_with_e())
    assert build(**{variable: json.loads(given)["NAME"]})
