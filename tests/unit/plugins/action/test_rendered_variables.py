# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the inventory may be all that Ansible can render: vaulted, of other hosts, omitted, dates."""

from __future__ import annotations

import datetime

import pytest
from ansible.parsing import vault
from ansible.template import trust_as_template
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.plugin_utils import host_limits, whose_variables
from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import variables
from ansible_collections.berth.kvm.plugins.plugin_utils.plain import plain


def fleet(**of_web1):
    """The task's variables in a fleet where web1 has these, and web2 a flavor."""
    it = Controller({"web": ["web1", "web2"]}, {"web1": of_web1, "web2": {"berth_flavor": "tiny"}})
    return it, it.task_vars()


@pytest.fixture(name="encrypted")
def a_vault(monkeypatch):
    """Encrypts texts with the password of the run."""
    secrets = [("default", vault.VaultSecret(b"password"))]
    monkeypatch.setattr(vault.VaultSecretsContext, "_current", vault.VaultSecretsContext(secrets))
    keeper = vault.VaultLib(secrets)
    return lambda text: vault.EncryptedString(ciphertext=keeper.encrypt(text).decode())


@pytest.mark.parametrize("variable, text", [("berth_shutdown_timeout", "70"), ("berth_locked", "false")])
def test_a_vaulted_value_is_what_was_encrypted_and_checked_as_that(encrypted, variable, text):
    """Every playbook ended with: EncryptedString is not JSON serializable."""
    it, task_vars = fleet(**{variable: encrypted(text)})
    raw = task_vars["hostvars"].raw_get("web1")
    assert whose_variables.value_of(task_vars, "web1", raw, variable) == text
    assert not it.run("check_variables", None, task_vars).get("failed")


def test_a_vaulted_value_that_breaks_a_rule_is_refused(encrypted):
    it, task_vars = fleet(berth_shutdown_timeout=encrypted("soon"))
    assert "a whole number from 0 to 86400 seconds" in it.run("check_variables", None, task_vars)["msg"]


@pytest.mark.follows("give_vault_password")
def test_a_vaulted_value_without_the_password_says_how_to_give_it(encrypted, monkeypatch):
    _it, task_vars = fleet(berth_locked=encrypted("true"))
    given = vault.VaultSecretsContext._current
    monkeypatch.setattr(vault.VaultSecretsContext, "_current", vault.VaultSecretsContext([]))
    with pytest.raises(InvalidInput) as refused:
        variables(task_vars, "web1", ["berth_locked"])
    assert refused.value.hint == input_hints.give_vault_password()
    monkeypatch.setattr(vault.VaultSecretsContext, "_current", given)
    assert variables(task_vars, "web1", ["berth_locked"]) == {"berth_locked": "true"}


@pytest.mark.follows("define_or_keep")
@pytest.mark.parametrize("change", [{"x": "ours"}, {"berth_metadata": {"id": "{{ x }}"}}], ids=["defined", "unsafe"])
def test_a_template_of_what_there_is_not_says_how_to_define_it_or_to_keep_the_braces(change):
    it, task_vars = fleet(berth_metadata={"id": trust_as_template("{{ x }}")})
    with pytest.raises(InvalidInput) as refused:
        variables(task_vars, "web1", ["berth_metadata"])
    assert refused.value.hint == fleet_hints.define_or_keep()
    for name, value in change.items():
        it.inventory.hosts["web1"].set_variable(name, value)
    assert variables(it.task_vars(), "web1", ["berth_metadata"])["berth_metadata"]["id"] in ("ours", "{{ x }}")


@pytest.mark.follows("install_collection")
def test_a_plugin_that_the_controller_does_not_have_is_to_be_named_rightly_or_installed():
    it, task_vars = fleet(berth_metadata={"id": trust_as_template("{{ lookup('no.such.one', 'x') }}")})
    with pytest.raises(InvalidInput) as refused:
        variables(task_vars, "web1", ["berth_metadata"])
    assert refused.value.hint == input_hints.install_collection()
    it.inventory.hosts["web1"].set_variable("berth_metadata", {"id": trust_as_template("{{ lookup('vars', 'x') }}")})
    it.inventory.hosts["web1"].set_variable("x", "ours")
    assert variables(it.task_vars(), "web1", ["berth_metadata"])["berth_metadata"]["id"] == "ours"


def test_a_lookup_that_fails_names_the_variable():
    _it, task_vars = fleet(berth_ssh_keys=[trust_as_template("{{ lookup('ansible.builtin.file', '/nonexistent') }}")])
    with pytest.raises(InvalidInput, match="berth_ssh_keys: 'a template that fails' is not valid"):
        variables(task_vars, "web1", ["berth_ssh_keys"])


def test_a_part_that_is_vaulted_counts_as_rendered(encrypted):
    assert whose_variables.is_rendered({"guest": [{"url": encrypted("http://x")}]})


def test_a_template_may_use_the_variables_of_another_host():
    _it, task_vars = fleet(berth_metadata={"peer": trust_as_template("{{ hostvars['web2'].berth_flavor }}")})
    assert variables(task_vars, "web1", ["berth_metadata"]) == {"berth_metadata": {"peer": "tiny"}}


def test_the_time_of_a_host_may_be_that_of_another():
    _it, task_vars = fleet(berth_host_timeout=trust_as_template("{{ hostvars['web2'].berth_flavor | length }}"))
    assert host_limits.host_timeouts(task_vars, ["web1", "web2", "unknown"]) == {"web1": 4, "web2": 60, "unknown": 60}


def test_what_is_omitted_is_absent():
    _it, task_vars = fleet(berth_state=trust_as_template("{{ omit }}"), berth_flavor="tiny")
    assert variables(task_vars, "web1", ["berth_state", "berth_flavor"]) == {"berth_flavor": "tiny"}


def test_a_date_is_its_text_and_what_has_no_text_is_refused_without_its_value():
    assert plain({"built": datetime.date(2026, 1, 31)}) == {"built": "2026-01-31"}
    assert plain([datetime.datetime(2026, 1, 31, 10, 0)]) == ["2026-01-31T10:00:00"]
    with pytest.raises(InvalidInput) as refused:
        plain({"key": b"secret"})
    assert "secret" not in str(refused.value) and "'bytes' is not valid" in str(refused.value)
