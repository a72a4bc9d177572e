# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rebuild on a real host: the guest boots from a new root disk as a new one, and finds its volume as it was."""

from __future__ import annotations

from test_resize import cases, facts

VOLUMES = {"berth_volumes_defined": {"data": {"size_gb": 1}}}
SAID = {"berth_rebuild_discards": cases.NAME}
ON_VOLUME = "qemu-io -f qcow2 -c '%s -P 7 0 1M' /var/lib/libvirt/berth/volumes/*/disk.qcow2"


def test_the_guest_is_a_new_one_with_its_name_addresses_and_volume(lab, image, tmp_path):
    case = cases.Case(lab, image, tmp_path, volumes=["data"])
    given = {**VOLUMES, "berth_images": {"guest": image, "again": image}}
    case.play("create", given)
    host = case.owner()
    before, (was,) = facts(case, host, lambda said: said["ack"] > 0), case.look(host)["records"]
    case.play("stop", given)
    lab.sh(host, ON_VOLUME % "write")
    case.play("start", given)

    refused = case.play("rebuild", given, check=False)
    assert refused.rc and "mover would lose root disk 1 GiB" in " ".join(refused.output.split()), refused.output
    assert case.look(host)["records"][0]["spec"] == was["spec"]

    told = " ".join(case.play("rebuild", {**given, **SAID, "berth_image": "again"}).output.split())
    assert "gives up root disk 1 GiB" in told, told
    inside = facts(case, host, lambda said: said["nonce"] != before["nonce"] and said["ack"] > 0)
    assert inside["verify"]["result"] == "none"
    (now,) = case.look(host)["records"]
    assert now["spec"]["image"]["name"] == "again" and now["vm_state"] == "active"
    kept = ("uuid", "name", "networks", "volumes", "flavor")
    assert {part: now["spec"].get(part) for part in kept} == {part: was["spec"].get(part) for part in kept}
    case.play("stop", given)
    lab.sh(host, ON_VOLUME % "read")
    case.play("delete", given)
