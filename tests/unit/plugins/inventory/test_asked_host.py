# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the inventory plugin asks the KVM hosts, and with what: with real Ansible and a cache of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from asked_host import AskedHost

pytestmark = pytest.mark.long


@pytest.fixture
def host(tmp_path):
    return AskedHost(tmp_path)


def instances(found):
    return {name for name, values in found["_meta"]["hostvars"].items() if "berth_uuid" in values}


# ---- the source itself -----------------------------------------------------------------------------------------------


def test_a_source_in_the_directory_of_its_kvm_inventory_asks_once_and_does_not_start_itself_again(host):
    """kvm_inventory: . is what a user writes who keeps one inventory directory."""
    source = host.write_source(kvm_inventory=".")
    for read in (source, source.parent):
        found, asked, _said = host.listed(read)
        assert (instances(found), asked) == ({"db"}, 1)


def test_a_password_of_a_vault_opens_the_kvm_hosts_variables_too_wherever_it_was_given(host):
    (host.room / "password").write_text("sesame\n")
    for name in ("host_vars", "group_vars"):
        (host.room / "inventory" / name).mkdir()
    locked = [host.room / "inventory/host_vars/kvm1.yml", host.room / "inventory/group_vars/kvm_hosts.yml"]
    for file in locked:
        file.write_text("secret: x\n")
    vault = Path(sys.executable).parent / "ansible-vault"
    subprocess.run([vault, "encrypt", "--vault-id", "lab@%s" % (host.room / "password"), *locked], check=True)
    source = host.write_source()
    asks = host.room / "ansible.cfg"
    asks.write_text("[defaults]\nask_vault_pass = true\n")
    for more, environment in (
        ((), {"ANSIBLE_CONFIG": str(asks), "typed": "sesame\n"}),
        (("--vault-id", "lab@%s" % (host.room / "password")), {}),
        (("--vault-password-file", host.room / "password"), {}),
        ((), {"ANSIBLE_VAULT_PASSWORD_FILE": str(host.room / "password")}),
        ((), {"ANSIBLE_VAULT_IDENTITY_LIST": "lab@%s" % (host.room / "password")}),
    ):
        found, _asked, said = host.listed(source, *more, **environment)
        assert instances(found) == {"db"}, said


def test_tags_of_the_run_leave_out_nothing_of_the_reading(host):
    settings = host.room / "ansible.cfg"
    settings.write_text("[tags]\nrun = web\nskip = all,always\n")
    for tags in ({"ANSIBLE_RUN_TAGS": "web", "ANSIBLE_SKIP_TAGS": "always"}, {"ANSIBLE_CONFIG": str(settings)}):
        found, _asked, said = host.listed(host.write_source(), **tags)
        assert instances(found) == {"db"}, said


# ---- the cache -------------------------------------------------------------------------------------------------------


@pytest.fixture
def cached(host):
    return {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(host.room / "cache")}


def cache_file(host):
    (found,) = (host.room / "cache").iterdir()
    return found


def test_with_a_cache_no_host_is_asked_again_and_the_same_is_listed(host, cached):
    source = host.write_source(**cached)
    first, asked, _said = host.listed(source)
    assert (instances(first), asked) == ({"db"}, 1)
    assert host.listed(source)[:2] == (first, 0)
    assert host.listed(source, "--flush-cache")[:2] == (first, 1)


@pytest.mark.parametrize("damage", ["", "garbage", "null", "{", "\x00", '{"__payload__": 3}'])
def test_a_damaged_cache_is_made_again(damage, host, cached):
    source = host.write_source(**cached)
    first = host.listed(source)[0]
    cache_file(host).write_text(damage)
    assert host.listed(source)[:2] == (first, 1)
    assert host.listed(source)[:2] == (first, 0)


@pytest.mark.parametrize("kept", [[], None, 3, "x", {}, {"hosts": {}, "verdicts": {}}, {"asked": {"version": "0.1.0"}}])
def test_what_another_version_kept_is_asked_for_again(kept, host, cached):
    source = host.write_source(**cached)
    first = host.listed(source)[0]
    cache_file(host).write_text(json.dumps({"__payload__": json.dumps(kept)}))
    assert host.listed(source)[:2] == (first, 1)


def test_a_cache_of_other_hosts_is_not_read(host, cached):
    """The user changed the file after the cache was filled."""
    host.listed(host.write_source(**cached))
    found, _asked, _said = host.listed(host.write_source(pattern="kvm_hosts:&nobody", **cached))
    assert instances(found) == set()


def test_a_fleet_of_which_no_host_answers_is_an_error_and_no_empty_fleet(host, cached):
    """AWX would remove all instances of an inventory that overwrites, and a cache would keep that."""
    source = host.write_source(**cached)
    host.fall_silent()
    with pytest.raises(AssertionError, match="no host of .*hosts.yml answered: kvm1: "):
        host.listed(source, ANSIBLE_INVENTORY_UNPARSED_FAILED="true")  # as AWX has it
    host.answer()
    assert instances(host.listed(source)[0]) == {"db"}
