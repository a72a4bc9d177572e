# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three hosts of the lab become the members of a registry: a real etcd with TLS, its backups, its restore, its restart."""

from __future__ import annotations

import base64
import shutil
import threading

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Found, Transact, Write
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.plugin_utils import registry_access

pytestmark = pytest.mark.skipif(not shutil.which("etcd"), reason="there is no etcd on this machine")
OPEN = {"schema": keys.SCHEMA, "incarnation": "one", "kind": "etcd", "open": True}


CLEAN = "service berth-registry stop; rm -rf /etc/berth-registry /var/lib/berth-registry /var/backups/berth-registry"


class Registry:
    """The members on the lab's hosts, and their authority."""

    def __init__(self, lab, inventory, directory):
        self.lab, self.inventory, self.directory = lab, inventory, directory

    def play(self, name, *arguments, **how):
        told = ["-e", "berth_ca_directory=%s" % self.directory, *arguments]
        return self.lab.ansible_playbook("berth.kvm." + name, *told, inventory=[self.inventory], **how)

    def engine(self, *numbers):
        hosts = yaml.safe_load(self.lab.inventory.read_text())["all"]["children"]["kvm_hosts"]["hosts"]
        at = [hosts[self.lab.host(number)]["ansible_host"] for number in numbers or (1, 2, 3)]
        return registry_access.engine([registry_access.Member(each, 2379) for each in at], str(self.directory))

    def read(self, key):
        found = self.engine().transact(Transact(reads=(key,)))["found"].get(key)
        return found and found.value

    def write(self, *written):
        assert self.engine().transact(Transact(writes=written))["succeeded"]


@pytest.fixture(scope="module")
def registry(bare_lab, tmp_path_factory):
    """Three members that nobody has used yet."""
    inventory = tmp_path_factory.mktemp("registry") / "registry.yml"
    names = dict.fromkeys(map(bare_lab.host, (1, 2, 3)), {})
    tree = {"all": {"children": {"berth_registry_hosts": {"hosts": names}}}}
    inventory.write_text(yaml.safe_dump(tree))
    made = Registry(bare_lab, inventory, tmp_path_factory.mktemp("authorities") / "ca")
    told = made.play("prepare_registry", "--check")
    assert sum(told.changed.values()) == 3 and not made.directory.exists()
    made.play("prepare_registry")
    yield made
    for number in (1, 2, 3):
        bare_lab.sh(number, CLEAN)


def test_three_hosts_become_members_whom_only_a_controller_reaches_and_a_second_run_changes_nothing(registry):
    registry.write(keys.written(keys.META, OPEN))
    again = registry.play("prepare_registry")
    assert set(again.changed.values()) == {0}, again.stdout
    assert "berth_registry: etcd://" in again.stdout
    with pytest.raises(RegistryUnknown):
        registry.write(Write("/other", b"x"))
    assert keys.document(keys.META, Found(registry.read(keys.META), 1)) == OPEN


@pytest.mark.slow
def test_members_with_other_settings_are_restarted_one_after_the_other_and_a_majority_answers_all_the_time(registry):
    failed, ended = [], threading.Event()

    def write_on():
        count = 0
        while not ended.wait(0.2):
            count += 1
            try:
                registry.write(Write("/berth/count", b"%d" % count))
            except RegistryUnknown as error:
                failed.append(error)

    def began():
        return [registry.lab.sh(number, "stat -c %Y /run/berth-registry/version").stdout for number in (1, 2, 3)]

    before, writer = began(), threading.Thread(target=write_on)
    writer.start()
    try:
        registry.play("prepare_registry", "-e", "berth_registry_quota_gb=3")
    finally:
        ended.set()
        writer.join()
    assert all(one != other for one, other in zip(before, began()))
    # a write that its member was just answering is lost at most
    assert int(registry.read("/berth/count")) > 20 and len(failed) <= 3, failed
    assert set(registry.play("prepare_registry", "-e", "berth_registry_quota_gb=3").changed.values()) == {0}


def test_a_member_that_is_lost_stops_nobody_and_two_lost_ones_stop_writes(registry):
    registry.lab.crash(2)
    try:
        registry.write(Write("/berth/with-two", b"x"))
        registry.lab.crash(3)
        with pytest.raises(RegistryUnknown):
            registry.write(Write("/berth/with-one", b"x"))
    finally:
        for number in (2, 3):
            registry.lab.start(number)
    registry.play("prepare_registry", "-e", "berth_registry_quota_gb=3")
    assert registry.read("/berth/with-two") == b"x" and not registry.read("/berth/with-one")


@pytest.mark.slow
def test_a_backup_is_restored_to_all_members_as_another_registry_that_is_closed(registry, tmp_path):
    registry.write(keys.written(keys.META, OPEN), Write("/berth/before", b"x"))
    registry.lab.sh(1, "/etc/berth-registry/backup")
    copied = registry.lab.sh(1, "base64 /var/backups/berth-registry/registry-*.db").stdout
    snapshot = tmp_path / "snapshot.db"
    snapshot.write_bytes(base64.b64decode(copied))
    registry.write(Write("/berth/after", b"x"))
    given = ["-e", "berth_registry_snapshot=%s" % snapshot, "-e", "berth_registry_quota_gb=3"]
    registry.play("restore_registry", "--check", *given)
    assert registry.read("/berth/after") == b"x"
    registry.play("restore_registry", *given)
    meta = keys.document(keys.META, Found(registry.read(keys.META), 1))
    assert meta["open"] is False and meta["incarnation"] != OPEN["incarnation"]
    assert registry.read("/berth/before") == b"x" and registry.read("/berth/after") is None
    for number in (1, 2, 3):
        assert registry.engine(number).transact(Transact(reads=("/berth/before",)))["found"]
