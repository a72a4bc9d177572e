# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory plugin makes of the listed instances beside an inventory of its own, and with real Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible.utils.display import Display
from asked_host import HOST, PLAIN, REPOSITORY
from told_instance import address, one

from ansible_collections.berth.kvm.plugins.inventory import instances as plugin
from ansible_collections.berth.kvm.plugins.module_utils.conductor.dynamic_inventory import PUBLISHED
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

# ---- in an inventory -------------------------------------------------------------------------------------------------

STATIC = """
all:
  hosts:
    laptop: {}
  children:
    kvm_hosts: {hosts: {kvm1: {}, kvm2: {}}, children: {rack3: {children: {shelf: {}}}}}
    racks: {children: {kvm_hosts: {}}}
    web: {hosts: {web-1: {}}}
"""
OPTIONS = {
    "kvm_inventory": ["a.yml"], "pattern": "kvm_hosts", "become": True, "group": "berth_instances_found", "cache": False,
    "default_groups": False, "failed_requests": False,
    "strict": True, "compose": {}, "groups": {"hosted": trust_as_template("true")}, "leading_separator": True,
    "keyed_groups": [{"key": trust_as_template("berth_flavor"), "prefix": "", "separator": ""}],
}  # fmt: skip


class Plugin(plugin.InventoryModule):
    def _read_config_data(self, path):
        """The options are those of this file."""
        return {}

    def get_option(self, option, hostvars=None):
        return OPTIONS[option]


BAD_NAMES = [
    "localhost", "all", "ungrouped", "kvm2", "laptop", "racks", "kvm_hosts", "web", "a,b", "../../etc/passwd", "",
    "Web", "web..example", "192.0.2.1", "-rf", "a\nb", "\x1b[2J", "{{ x }}", "w" * 64, "a b", "a:!b", "~a", "a[1:9]", "\u202ea",
]  # fmt: skip


@pytest.fixture
def inventory(tmp_path, monkeypatch):
    """inventory(hosts) -> (the inventory, the warnings), where the hosts tell of these instances."""
    (tmp_path / "a.yml").write_text(STATIC)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "web.yml").write_text("berth_flavor: large\n")
    shown = []
    monkeypatch.setattr(Display, "warning", lambda _self, text, *_args, **_more: shown.append(text))
    monkeypatch.setattr(Display, "_warning", lambda _self, text, *_args, **_more: shown.append(str(text)))

    def read(hosts, verdicts=None, files=("a.yml", "z.berth.yml"), addresses=None):
        report = {"hosts": hosts, "verdicts": verdicts or {}, "addresses": addresses or {}}
        monkeypatch.setattr(plugin, "read_hosts", lambda *given: report)
        it = InventoryManager(loader=DataLoader())
        shown.clear()  # it has no source yet, which Ansible thinks worth a warning
        for name in files:
            if name == "a.yml":
                it._inventory.processed_sources.append(str(tmp_path / name))
                it.parse_source(str(tmp_path / name))
            else:
                Plugin().parse(it._inventory, it._loader, str(tmp_path / name))
        it.reconcile_inventory()
        return it, shown

    return read


def test_an_instance_that_exists_is_a_host_of_the_inventory(inventory):
    it, shown = inventory({"kvm1": [one("db")]}, {"kvm2": "no answer within 60 s"})
    assert it.get_host("db").get_vars()["berth_kvm_host"] == "kvm1"
    assert {"berth_instances_found", "hosted", "small"} <= {group.name for group in it.get_host("db").get_groups()}
    assert shown == ["Host kvm2 is left out: no answer within 60 s"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_none_or_is_anothers_is_refused_with_a_warning_that_names_the_host(name, inventory):
    before, _shown = inventory({})
    it, shown = inventory({"kvm1": [one(name), one("db")]})
    assert set(it.hosts) - set(before.hosts) == {"db"}
    assert set(it.groups) - set(before.groups) == {"small", "hosted"}
    for host in before.hosts:
        assert {group.name for group in it.get_host(host).get_groups()} == {
            group.name for group in before.get_host(host).get_groups()
        }
        assert "berth_uuid" not in it.get_host(host).get_vars()
    assert len(shown) == 1 and shown[0].startswith("Host kvm1 has an instance ") and shown[0].isprintable()


@pytest.mark.parametrize("name", [name for name in BAD_NAMES if name not in ("laptop", "web")])
def test_it_is_refused_also_where_this_source_comes_first(name, inventory):
    it, shown = inventory({"kvm1": [one(name)]}, files=("z.berth.yml", "a.yml"))
    assert set(it.hosts) == {"laptop", "kvm1", "kvm2", "web-1"} and len(shown) == 1


@pytest.mark.parametrize("change", [{"uuid": instance_uuid("default", "other")}, {"project_id": "theirs"}])
def test_a_uuid_that_does_not_follow_from_project_and_name_is_refused(change, inventory):
    it, shown = inventory({"kvm1": [one("db", **change)]})
    assert "db" not in it.hosts and "its uuid is not that of its project and name" in shown[0]


ADOPTED = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"


def say(top, variable):
    """The inventory gives web-1 the uuid by that variable, if any."""
    if variable:
        (top / "host_vars").mkdir()
        (top / "host_vars" / "web-1.yml").write_text("%s: %s\n" % (variable, ADOPTED))


@pytest.mark.parametrize("is_said", [True, False])
def test_an_adopted_one_is_listed_only_by_the_name_to_which_the_inventory_gives_its_uuid(is_said, inventory, tmp_path):
    say(tmp_path, "berth_adopted" if is_said else None)
    it, warnings = inventory({"kvm1": [one(ADOPTED, uuid=ADOPTED, adopted="web-1")]})
    assert it.hosts["web-1"].vars.get("berth_uuid") == (ADOPTED if is_said else None)
    assert [each for each in warnings if "its berth_adopted is its uuid" in each] == warnings and bool(
        warnings
    ) != is_said
    created = {"kvm1": [one("web-1")]}
    assert ("berth_uuid" in inventory(created)[0].hosts["web-1"].vars) != is_said


@pytest.mark.parametrize("is_said", [True, False])
def test_a_renamed_one_is_listed_only_by_the_name_to_which_the_inventory_gives_its_uuid(is_said, inventory, tmp_path):
    say(tmp_path, "berth_uuid" if is_said else None)
    it, warnings = inventory({"kvm1": [one(ADOPTED, uuid=ADOPTED, own_name="web-1")]})
    assert it.hosts["web-1"].vars.get("berth_kvm_host") == ("kvm1" if is_said else None)
    assert bool([each for each in warnings if "does not say that its berth_uuid is its uuid" in each]) != is_said


def test_what_the_inventory_says_of_an_instance_stays(inventory):
    """Its flavor is in a file beside the inventory."""
    it, shown = inventory({"kvm1": [one("web-1", flavor={"name": "huge"})]})
    assert "berth_flavor" not in it.get_host("web-1").get_vars()
    assert (it.get_host("web-1").get_vars()["berth_kvm_host"], shown) == ("kvm1", [])


@pytest.mark.parametrize("files", [("a.yml", "z.berth.yml"), ("z.berth.yml", "a.yml")])
@pytest.mark.parametrize("group", ["kvm_hosts", "racks", "rack3", "shelf"])
def test_no_keyed_group_makes_an_instance_a_kvm_host(group, files, inventory):
    """Nor one that is empty by now and lies below the group of the KVM hosts."""
    it, shown = inventory({"kvm1": [one("db", flavor={"name": group})]}, files=files)
    assert {host.name for host in it.groups["kvm_hosts"].get_hosts()} == {"kvm1", "kvm2"}
    assert "kvm_hosts" not in {found.name for found in it.get_host("db").get_groups()}
    assert shown == ["Instance db is kept out of group %s, which has KVM hosts" % group]


def test_a_hosts_words_set_no_variable_of_ansible(inventory):
    it, _shown = inventory({"kvm1": [one("db", ansible_host="h", ansible_connection="local", berth_locked=True)]})
    values = {name for name in it.get_host("db").get_vars() if not name.startswith(("inventory_", "group_names"))}
    assert values == {"berth_project", *PUBLISHED}


def test_no_guest_sends_ansible_to_a_machine_of_the_inventory_by_its_word(inventory, tmp_path):
    """Wherever its address is written, and however; the KVM hosts say their own."""
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "laptop.yml").write_text("ansible_host: 2001:DB8::0:7\n")
    told = [one("db", **address("2001:db8::7", "agent")), one("mail", **address("192.0.2.1", "arp"))]
    it, _shown = inventory({"kvm1": [*told, one("www", **address("192.0.2.3"))]}, addresses={"kvm1": "192.0.2.1"})
    assert [name for name in ("db", "mail", "www") if "ansible_host" in it.get_host(name).get_vars()] == ["www"]


def test_a_host_shows_only_so_many_warnings(inventory):
    _it, shown = inventory({"kvm1": [one("A%d" % number) for number in range(1000)]})
    assert len(shown) == plugin.MOST_WARNINGS + 1 and shown[-1] == "950 more instances are left out"


def test_groups_tell_what_instances_are_now_whatever_the_inventory_wishes(inventory, monkeypatch):
    monkeypatch.setitem(OPTIONS, "default_groups", True)
    here = one("web-1", flavor={"name": "m1.tiny"}, group="pair", zone="z 1", power_state="shutdown")
    it, _shown = inventory({"kvm1": [here]})
    names = {group.name for group in it.get_host("web-1").get_groups() if group.name.startswith("berth_")}
    assert names == {
        "berth_instances_found", "berth_state_shutdown", "berth_flavor_m1_tiny", "berth_zone_z_1", "berth_host_kvm1",
        "berth_project_default", "berth_server_group_pair",
    }  # fmt: skip


@pytest.mark.parametrize("files", [("a.yml", "z.berth.yml"), ("z.berth.yml", "a.yml")])
def test_the_flavor_that_a_file_wishes_counts_whichever_source_comes_first(files, inventory):
    """Else a resize with both sources would find nothing to do."""
    it, _shown = inventory({"kvm1": [one("web-1")]}, files=files)
    variables = it.get_host("web-1").get_vars()  # without the files of group_vars
    assert "berth_flavor" not in variables and variables["berth_present_flavor"] == "small"


@pytest.mark.parametrize(
    "name, meant", [("fleet.yml", True), ("kvm.yaml", True), ("notes.txt", False), ("x.berth.yml", None)]
)
def test_a_file_of_another_name_is_refused_with_the_rule(name, meant, tmp_path):
    path = tmp_path / name
    path.write_text("plugin: berth.kvm.instances\nkvm_inventory: hosts.yml\n")
    if meant:
        with pytest.raises(AnsibleParserError, match="does not end in berth.yml or berth.yaml"):
            Plugin().verify_file(str(path))
    else:
        assert Plugin().verify_file(str(path)) is (meant is None)


def test_an_option_that_there_is_not_is_refused_by_name(monkeypatch):
    """Ansible itself ignores it."""
    known = {"kvm_inventory": {}, "pattern": {}}
    monkeypatch.setattr(plugin.C.config, "get_configuration_definitions", lambda _kind, _name: known)
    monkeypatch.setattr(Plugin, "_read_config_data", lambda _self, _path: {"plugin": "x", "patern": "kvm"})
    with pytest.raises(AnsibleParserError, match="i.berth.yml: there is no option patern. Did you mean pattern?"):
        Plugin().parse(None, None, "i.berth.yml")


@pytest.mark.parametrize("pattern, says", [("kvmhosts", "Did you mean kvm_hosts?"), ("laptop:!laptop", "Known: ")])
def test_a_pattern_that_selects_no_kvm_host_is_refused_before_a_host_is_asked(inventory, monkeypatch, pattern, says):
    monkeypatch.setitem(OPTIONS, "pattern", pattern)
    with pytest.raises(AnsibleParserError, match="pattern: %s selects no host of kvm_inventory" % pattern) as refused:
        inventory({"kvm1": [one("db")]})
    assert says in str(refused.value)


def test_a_file_of_another_plugin_is_left_to_it(tmp_path):
    (tmp_path / "hosts.yml").write_text("all: {hosts: {web-1: {}}}\n")
    assert Plugin().verify_file(str(tmp_path / "hosts.yml")) is False


# ---- with real Ansible -----------------------------------------------------------------------------------------------


def test_hosts_are_read_by_the_playbook_with_all_its_checks(tmp_path):
    """One host tells of a good and a bad instance, one never ends, one is silent. What hosts have is in two files."""
    told = [{**one(name), **PLAIN} for name in ("db", "a,b")]
    document = {**HOST, "instances": told, "num_instances": len(told)}
    reply = json.dumps({"changed": False, "ansible_facts": {"berth_host": document, "ansible_host": "evil"}})
    says = {"good": "cat <<'END'\n%s\nEND" % reply, "endless": "exec yes x", "silent": "exec sleep 300"}
    fleet = {}
    for name, script in says.items():
        python = tmp_path / name
        python.write_text("#!/bin/sh\ncat > /dev/null\n%s\n" % script)
        python.chmod(0o755)
        fleet[name] = {"ansible_python_interpreter": str(python), "berth_host_timeout": 5 if name == "silent" else 300}
    common = {"ansible_connection": "local", "ansible_pipelining": True}
    tree = {"all": {"children": {"kvm_hosts": {"hosts": fleet}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(tree))
    (tmp_path / "common.yml").write_text(json.dumps({"all": {"children": {"kvm_hosts": {"vars": common}}}}))
    plugin_file = "{plugin: berth.kvm.instances, kvm_inventory: [hosts.yml, common.yml], become: false}"
    (tmp_path / "i.berth.yml").write_text(plugin_file)
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-inventory"), "-i", tmp_path / "i.berth.yml", "--list"],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections")},
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    found = json.loads(done.stdout)["_meta"]["hostvars"]
    # as ansible-inventory writes a text that is never rendered
    assert {name: values["berth_kvm_host"] for name, values in found.items()} == {"db": {"__ansible_unsafe": "good"}}
    said = " ".join(done.stderr.split())
    for part in (
        "that is left out: its uuid is not that of its project and name",
        "Host silent is left out: UNREACHABLE: no answer within 5 s",
    ):
        assert part in said
    assert "Host endless is left out" in said


def test_what_could_not_be_made_is_listed_with_its_error_in_a_group_of_its_own(inventory, monkeypatch):
    """C02: the hosts do not know of it."""
    monkeypatch.setitem(OPTIONS, "default_groups", True)
    monkeypatch.setitem(OPTIONS, "failed_requests", True)
    said = {"code": "NoValidHost", "message": "none", "operation": "create", "at": "2026-01-01T00:00:00Z"}
    kept = {
        name: {**said, "name": name, "project": "default", "uuid": instance_uuid("default", name)}
        for name in ("new", "db", "kvm1", "laptop")
    }
    monkeypatch.setattr(
        plugin.remembered_failures, "known", lambda fleet: kept if fleet.names == {"kvm1", "kvm2"} else {}
    )
    monkeypatch.setitem(OPTIONS, "failed_requests", False)
    unasked, _shown = inventory({"kvm1": [one("db")]})
    assert unasked.get_host("new") is None, "a refused create made no machine"
    monkeypatch.setitem(OPTIONS, "failed_requests", True)
    it, shown = inventory({"kvm1": [one("db")]})
    assert {host.name for host in it.groups["berth_state_error"].get_hosts()} == {"new"}
    assert it.get_host("new").get_vars()["berth_error"] == said
    assert it.get_host("db").get_vars()["berth_error"]["code"] == "NoValidHost"
    assert not {"berth_error"} & (set(it.get_host("kvm1").get_vars()) | set(it.get_host("laptop").get_vars()))
    assert shown == []
