# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible writes into the log of a host when a module runs there."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ansible import constants
from ansible.module_utils import basic

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.modules import build_instances, instance
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
SEED = {"hostname": "web1", "user_data": "#cloud-config\npassword: correct-horse\n", "cloud_config": '{"battery": 1}\n'}
OF_ONE = {"uuid": UUID, "token": "t1", "spec": {}, "seed": SEED}


def sent(module, arguments):
    """What the host gets: Ansible puts its own wish beside the arguments, and that goes before whatever the module says."""
    given = {}
    action = SimpleNamespace(_task=SimpleNamespace(delegate_to="kvm1"), _connection=None)
    action._execute_module = lambda **how: given.update(how) or {}
    host_reply.run_module(action, module.__name__.rpartition(".")[2], arguments, {})
    off = constants.config.get_config_value("DEFAULT_NO_TARGET_SYSLOG", variables=given["task_vars"])
    return json.dumps({"ANSIBLE_MODULE_ARGS": {**given["module_args"], "_ansible_no_log": off}}).encode()


def refuse(*_args, **_options):
    raise BerthError("no host here")


@pytest.mark.parametrize(
    "module, arguments", [(instance, {**OF_ONE, "state": "present"}), (build_instances, {"builds": [OF_ONE]})]
)
def test_user_data_is_in_no_log_of_a_host(module, arguments, monkeypatch):
    logged = []
    monkeypatch.setattr(basic.AnsibleModule, "log", lambda _self, *said, **more: logged.append(str((said, more))))
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", sent(module, arguments))
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    monkeypatch.setattr(instance.Host, "here", refuse)
    monkeypatch.setattr(build_instances.build_many, "build", refuse)
    with pytest.raises(SystemExit):
        module.main()
    assert not [line for line in logged if "horse" in line or "battery" in line]
