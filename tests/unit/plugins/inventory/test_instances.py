# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances the inventory plugin lists, beside an inventory of its own and whatever the hosts say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible.utils.display import Display

from ansible_collections.berth.kvm.plugins.inventory import instances as plugin
from ansible_collections.berth.kvm.plugins.module_utils.conductor.inventory_names import listed
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

REPOSITORY = Path(__file__).resolve().parents[4]
HOST = json.loads((REPOSITORY / "tests/unit/plugins/action/host.json").read_text())


PLAIN = {
    "vm_state": "active", "task_state": None, "vcpus": 1, "pcpus": 0, "memory_mb": 128, "disk_gb": 1, "pool": None,
    "image_props": {}, "flavor": {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1},
}  # fmt: skip


def one(name, project="default", **change):
    found = {
        "uuid": instance_uuid(project, name),
        "name": name,
        "project_id": project,
        "role": "OWN",
        "foreign": False,
        "flavor": {"name": "small"},
        "group": None,
        "power_state": "running",
        "phase": "active",
    }
    return {**found, **change}


# ---- what is listed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, names",
    [
        pytest.param({}, ["web-1"], id="owned-is-listed"),
        pytest.param({"foreign": True}, [], id="foreign-is-not"),
        pytest.param({"role": "CLAIM"}, [], id="a-claim-is-not"),
        pytest.param({"role": "OUT"}, [], id="the-source-of-a-move-is-not"),
    ],
)
def test_only_what_a_host_owns_is_listed(change, names):
    assert listed({"kvm1": [one("web-1", **change)]}, lambda name: None) == (
        {name: listed({"kvm1": [one(name)]}, lambda name: None)[0][name] for name in names},
        [],
    )


def test_an_instance_carries_its_host_by_inventory_name_and_its_flavor():
    variables = listed({"kvm1": [one("web-1")]}, lambda name: None)[0]["web-1"]
    assert (variables["berth_kvm_host"], variables["berth_flavor"]) == ("kvm1", "small")


@pytest.mark.parametrize("order", [["kvm1", "liar"], ["liar", "kvm1"]])
def test_of_two_hosts_that_own_one_name_neither_has_it_and_both_are_named(order):
    """A host that lies takes nobody's instance over; nor does the order of the answers decide."""
    hosts = {host: [one("web-1", project=host) if host == "other" else one("web-1")] for host in order}
    found, left_out = listed({**hosts, "kvm3": [one("db")]}, lambda name: None)
    assert list(found) == ["db"]
    assert [str(error) for error in left_out] == [
        "Instance web-1 is left out: kvm1 and liar each say that they own one of that name, so it is not known which host has it"
    ]


def test_an_instance_of_another_project_is_not_the_one_that_the_inventory_describes():
    described = {"web-1": {"berth_flavor": "large", "berth_project": "ours"}}
    hosts = {"kvm1": [one("web-1", project="ours")], "liar": [one("web-1", project="theirs")]}
    found, left_out = listed(hosts, described.get)
    assert found["web-1"]["berth_kvm_host"] == "kvm1"
    assert ["liar" in str(error) for error in left_out] == [True]


def test_of_an_instance_that_the_inventory_describes_a_host_tells_only_where_it_is_and_its_state():
    found, _left_out = listed({"kvm1": [one("web-1")]}, {"web-1": {"berth_flavor": "large"}}.get)
    assert set(found["web-1"]) == {"berth_uuid", "berth_kvm_host", "berth_power_state", "berth_phase"}


# ---- in an inventory -------------------------------------------------------------------------------------------------

STATIC = """
all:
  hosts:
    laptop: {}
  children:
    kvm_hosts: {hosts: {kvm1: {}, kvm2: {}}}
    racks: {children: {kvm_hosts: {}}}
    web: {hosts: {web-1: {}}}
"""
OPTIONS = {
    "kvm_inventory": "a.yml", "pattern": "kvm_hosts", "become": True, "group": "berth_instances_found", "cache": False,
    "strict": True, "compose": {}, "groups": {"hosted": trust_as_template("true")}, "leading_separator": True,
    "keyed_groups": [{"key": trust_as_template("berth_flavor"), "prefix": "", "separator": ""}],
}  # fmt: skip


class Plugin(plugin.InventoryModule):
    def _read_config_data(self, path):
        """The options are those of this file."""

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

    def read(hosts, verdicts=None, files=("a.yml", "z.berth.yml")):
        report = {"hosts": hosts, "verdicts": verdicts or {}}
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


def test_what_the_inventory_says_of_an_instance_stays(inventory):
    """Its flavor is in a file beside the inventory."""
    it, shown = inventory({"kvm1": [one("web-1", flavor={"name": "huge"})]})
    assert "berth_flavor" not in it.get_host("web-1").get_vars()
    assert (it.get_host("web-1").get_vars()["berth_kvm_host"], shown) == ("kvm1", [])


@pytest.mark.parametrize("files", [("a.yml", "z.berth.yml"), ("z.berth.yml", "a.yml")])
@pytest.mark.parametrize("group", ["kvm_hosts", "racks"])
def test_no_keyed_group_makes_an_instance_a_kvm_host(group, files, inventory):
    it, shown = inventory({"kvm1": [one("db", flavor={"name": group})]}, files=files)
    assert {host.name for host in it.groups[group].get_hosts()} == {"kvm1", "kvm2"}
    assert shown == ["Instance db is kept out of group %s, which has KVM hosts" % group]


def test_a_hosts_words_set_no_variable_of_ansible(inventory):
    it, _shown = inventory({"kvm1": [one("db", ansible_host="h", ansible_connection="local", berth_locked=True)]})
    values = {name for name in it.get_host("db").get_vars() if not name.startswith(("inventory_", "group_names"))}
    assert values == {
        "berth_uuid", "berth_kvm_host", "berth_project", "berth_flavor", "berth_server_group", "berth_power_state",
        "berth_phase",
    }  # fmt: skip


def test_a_host_shows_only_so_many_warnings(inventory):
    _it, shown = inventory({"kvm1": [one("A%d" % number) for number in range(1000)]})
    assert len(shown) == plugin.MOST_WARNINGS + 1 and shown[-1] == "950 more instances are left out"


# ---- with real Ansible -----------------------------------------------------------------------------------------------


def test_hosts_are_read_by_the_playbook_with_all_its_checks(tmp_path):
    """One host tells of a good and a bad instance, one never ends, one is silent."""
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
    tree = {"all": {"children": {"kvm_hosts": {"hosts": fleet, "vars": common}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(tree))
    (tmp_path / "i.berth.yml").write_text("{plugin: berth.kvm.instances, kvm_inventory: hosts.yml, become: false}")
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
    for part in ("Host good has an instance 'a,b'", "Host silent is left out: UNREACHABLE: no answer within 5 s"):
        assert part in said
    assert "Host endless is left out" in said
