# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running guest of real libvirt gets another name, is not restarted, moves with it, and no second instance has either name."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from playbooks import catalog, homes, records, vm

UUID = instance_uuid("default", "db1")


def test_a_renamed_guest_goes_on_and_is_found_by_its_new_name_and_its_uuid_alone(lab, image, inventory):
    paths = {
        "db1": inventory({"db1": vm()}, catalog(image), "old.yml"),
        "db2": inventory({"db2": vm(uuid=UUID)}, catalog(image), "new.yml"),
        "second": inventory({"db2": vm()}, catalog(image), "second.yml"),
    }

    def play(playbook, of, *more, check=True):
        return lab.ansible_playbook(
            "berth.kvm." + playbook, "-e", "berth_all=true", *more, inventory=[paths[of]], check=check
        )

    def said(host, command):
        return lab.sh(host, command % UUID).stdout.strip()

    new = ("-e", "berth_new_name=db2")
    assert play("create", "db1").changed["db1"]
    host = homes(lab)["db1"]
    process = said(host, "cat /run/libvirt/qemu/%s.pid")
    assert play("rename", "db1", *new, "--check", "--diff").changed["db1"] and homes(lab) == {"db1": host}

    done = play("rename", "db1", *new)
    assert done.changed["db1"] and "berth_uuid: %s" % UUID in done.output, done.output
    assert homes(lab) == {"db2": host} and said(host, "cat /run/libvirt/qemu/%s.pid") == process
    assert said(host, "virsh desc --title %s") == said(host, "virsh desc --title --config %s") == "db2"
    assert "<berth:name>db2</berth:name>" in said(host, "virsh dumpxml %s")
    again = play("rename", "db1", *new)
    assert not again.changed.get("db1") and "berth_uuid: %s" % UUID in again.output, again.output

    for playbook, of, code in (
        ("stop", "db1", "InstanceRenamed"),
        ("create", "db1", "InstanceRenamed"),
        ("create", "second", "InstanceExists"),
    ):
        refused = play(playbook, of, check=False)
        assert refused.rc and code in refused.output, refused.output
    assert records(lab) == [(host, "db2", "OWN")]

    kept = play("create", "db2")
    assert not kept.changed.get("db2"), kept.output
    assert play("stop", "db2").changed["db2"]
    assert play("cold_migrate", "db2").changed["db2"] and homes(lab)["db2"] != host
    assert play("confirm_resize", "db2").changed["db2"]
    assert play("start", "db2").changed["db2"]
    assert said(homes(lab)["db2"], "virsh desc --title %s") == "db2"
    assert play("delete", "db2").changed["db2"] and records(lab) == []
    assert play("create", "second").changed["db2"], "the name is free again"
    play("delete", "second")
