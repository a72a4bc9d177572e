# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input on real hosts: an error with a stable code, exit status not zero, and nothing changed anywhere (I11).

The table of all kinds of bad input is tests/unit/plugins/action/test_placement.py; here is what only a host can find.
"""

from __future__ import annotations

import json

from playbooks import catalog, homes, left, vm

EVIL = "/srv/shared/images/evil.qcow2"


def test_wrong_word_changes_nothing_anywhere(lab, image, inventory):
    """One bad instance stops the run before any host is asked to do something."""
    path = inventory({"good": vm(), "bad": {**vm(), "berth_flavor": "tinny"}}, catalog(image))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], check=False)
    assert (done.rc, "FlavorNotFound" in done.stdout, "tiny" in done.stdout) == (2, True, True)
    assert left(lab) == {}


def test_image_with_a_backing_file_is_refused_and_no_other_host_is_tried(lab, image, inventory):
    """CVE-2024-32498 and kin; C30: a bad image is bad everywhere."""
    lab.sh(1, "qemu-img create -q -f qcow2 -F raw -b /etc/shadow %s 64M" % EVIL)
    checksum = lab.sh(1, "sha256sum %s" % EVIL).stdout.split()[0]
    evil = {**image, "url": EVIL, "checksum": "sha256:" + checksum}
    path = inventory({"a": vm()}, catalog(evil))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], check=False)
    assert done.rc == 2
    assert "ImageInvalid" in done.stdout
    assert "attempt 2" not in done.stdout
    assert left(lab) == {}


def test_what_could_not_be_built_is_in_error_until_it_is_made_or_deleted(lab, image, inventory):
    """C02, C14, C15."""
    bad = {**image, "checksum": "sha256:" + 64 * "0"}
    images = {"berth_images": {"guest": "{{ good | default(bad) }}"}, "bad": bad}
    path = inventory({"a": vm(), "b": vm()}, {**catalog(image), **images})

    def in_error():
        notes = (lab.sh(host, "cat /var/lib/berth/failures.json 2>/dev/null || echo {}").stdout for host in lab.hosts)
        return {note["name"]: (note["host"], uuid) for text in notes for uuid, note in json.loads(text).items()}

    lab.ansible_playbook("berth.kvm.create", inventory=[path], check=False)
    failed = in_error()
    assert (sorted(failed), left(lab)) == (["a", "b"], {})
    host, uuid = failed["b"]
    shown = next(
        instance for instance in lab.module(host, "berth.kvm.instance_info")["instances"] if instance["uuid"] == uuid
    )
    assert (shown["vm_state"], shown["faults"][0]["code"], shown["faults"][0]["host"]) == (
        "error",
        "ImageInvalid",
        host,
    )
    refused = lab.module(host, "berth.kvm.instance", {"uuid": uuid, "state": "stopped"}, check=False)
    assert refused["error_code"] == "InstanceInvalidState"
    lab.ansible_playbook("berth.kvm.create", "--limit", "a", inventory=[path], extra_vars={"good": image})
    assert (list(homes(lab)), list(in_error())) == (["a"], ["b"])
    deleted = lab.ansible_playbook("berth.kvm.delete", "--limit", "b", inventory=[path])
    assert (deleted.changed["b"], in_error()) == (1, {})


def test_network_that_only_some_hosts_have_leads_to_one_of_these(lab, image, inventory):
    """C06, A09: the host with the most room lacks the bridge and is left out before anything is claimed there."""
    lab.sh(2, "ip link add br9 type bridge && ip link set br9 up")
    networks = {"berth_networks_defined": {"lan": {"type": "bridge", "source": "br9"}}}
    path = inventory({"a": vm()}, {**catalog(image), **networks})
    try:
        lab.ansible_playbook("berth.kvm.create", inventory=[path])
        assert homes(lab) == {"a": lab.host(2)}
    finally:
        lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
        lab.sh(2, "ip link del br9")
    assert left(lab) == {}
