# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What claims, builds and moves without a registry does nothing on a host that belongs to one, in check mode either."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.modules import build_instances, claim, migration, volume

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
GIVEN = {
    "build": (build_instances, build_instances.ARGUMENTS, {"builds": [{"uuid": UUID}]}),
    "claim": (claim, {"claims": {}, "withdraw": {}, "failed": {}}, {"claims": [{"spec": {}}]}),
    "leg": (migration, migration.SPEC, {"uuid": UUID, "steps": ["begin"]}),
    "new volume": (volume, volume.ARGUMENTS, {"uuid": UUID, "state": "claimed", "volume": {}}),
    "made volume": (volume, volume.ARGUMENTS, {"uuid": UUID, "state": "present", "token": "t"}),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(module, its options, given, check mode) -> its error. ``run.store``: of the host; ``run.acted``: what it did."""
    store, acted = Store(str(tmp_path / "berth")), []
    host = SimpleNamespace(store=store, identify=lambda: None, effects=SimpleNamespace(warnings=[]))
    monkeypatch.setattr(claim.Host, "here", lambda _action: host)
    for module in (build_instances, migration):
        monkeypatch.setattr(module, "Store", lambda: store)
    monkeypatch.setattr(build_instances.build_many, "build", lambda *_given: acted.append("built") or [])
    monkeypatch.setattr(migration, "act", lambda _module: acted.append("moved") or {})
    monkeypatch.setattr(volume, "act", lambda *_given: acted.append("volume") or True)

    def run(module, options, given, check_mode):
        ended = []

        class Module:
            def __init__(self, **_options):
                self.params = {**dict.fromkeys([*options, "by", "registry"]), **given}
                for name in ("claims", "withdraw", "failed", "builds", "steps"):
                    self.params[name] = self.params.get(name) or []
                self.check_mode = check_mode

            def exit_json(self, **result):
                ended.append(result)

            def fail_json(self, **result):
                ended.append(result)
                raise EOFError

        monkeypatch.setattr(module, "AnsibleModule", Module)
        with contextlib.suppress(EOFError):
            module.main()
        return (ended[0].get("error") or {}).get("code")

    run.store, run.acted = store, acted
    yield run
    registry_mark.act_over(None)


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("what", GIVEN)
def test_nothing_without_a_registry_acts_on_a_host_that_belongs_to_one(run, what, check_mode):
    with run.store.host_lock():
        registry_mark.keep(run.store, {"kind": "etcd", "incarnation": "one", "revision": 7})
    assert run(*GIVEN[what], check_mode) == "RegistryDiffers"
    assert not run.acted and run.store.records() == []


@pytest.mark.parametrize("what", sorted(set(GIVEN) - {"claim"}))
def test_a_host_without_a_registry_does_what_it_did(run, what):
    assert run(*GIVEN[what], False) is None and run.acted


def test_a_look_at_a_move_and_the_removal_of_a_volume_need_no_registry(run):
    with run.store.host_lock():
        registry_mark.keep(run.store, {"kind": "etcd", "incarnation": "one", "revision": 7})
    assert run(migration, migration.SPEC, {"uuid": UUID, "steps": []}, False) is None
    assert run(volume, volume.ARGUMENTS, {"uuid": UUID, "state": "absent"}, False) is None
    assert run.acted == ["moved", "volume"]
