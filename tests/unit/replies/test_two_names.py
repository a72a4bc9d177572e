# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole playbook prepare_hosts where two names of the inventory are one machine."""

from __future__ import annotations

import json

import fake_fleet
import good


def test_neither_name_of_one_machine_gets_certificates_and_the_other_hosts_do(tmp_path):
    def made(host):
        found = fake_fleet.replies(host)
        if host == "h2":
            found["host_prepare"] = {**found["host_prepare"], "host_uuid": good.UUIDS["h1"]}
        return found

    done = fake_fleet.play(tmp_path, ["prepare_hosts", "-e", "berth_host_libvirt_service=libvirtd"], replies=made)
    asked = {host: [json.loads(line) for line in lines] for host, lines in done["asked"].items()}
    given = {
        host: [each for each in of_host if each["module"] == "host_certificates" and each["arguments"].get("signed")]
        for host, of_host in asked.items()
    }
    assert {host: len(certificates) for host, certificates in given.items()} == {"h1": 0, "h2": 0, "h3": 1}
    said = " ".join(done["said"].split())
    assert done["rc"] and "h1, h2 all answer with the host uuid" in said, done["said"][-3000:]
