# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed: what cloud-init gets, in a file that only its owner may read (A08, A10, A11, A20)."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import build, mend, seed
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, record_copy, state_directory
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def test_a_guest_with_a_domain_has_the_whole_name_of_cloud_init_s_vendor_data():
    files = seed.documents(UUID, {"hostname": "web-1", "fqdn": "web-1.example.org"}, ["swap"])
    assert b"local-hostname: web-1\n" in files["meta-data"]
    vendor = json.loads(files["vendor-data"].decode().removeprefix("#cloud-config\n"))
    assert (vendor["fqdn"], list(vendor)) == ("web-1.example.org", ["fqdn", "mounts"])
    assert "vendor-data" not in seed.documents(UUID, {"hostname": "web-1", "fqdn": None})


def test_the_documents_are_nocloud_s():
    files = seed.documents(
        UUID,
        {
            "hostname": "web-1",
            "ssh_keys": ["ssh-ed25519 AAAA me"],
            "user_data": "#!/bin/sh\n",
            "network_config": {"version": 2},
        },
    )
    assert files["meta-data"].decode().splitlines() == [
        "instance-id: " + UUID,
        "local-hostname: web-1",
        'public-keys: ["ssh-ed25519 AAAA me"]',
    ]
    assert files["user-data"] == b"#!/bin/sh\n"
    assert json.loads(files["network-config"]) == {"version": 2}


def test_without_user_data_cloud_init_gets_an_empty_config():
    assert seed.documents(UUID, {"hostname": "web-1"})["user-data"].startswith(b"#cloud-config\n")


@pytest.mark.parametrize("key", ['ssh-ed25519 AAAA "me"', "ssh-ed25519 AAAA me: {}", "ssh-ed25519 AAAA \u202e"])
def test_a_key_cannot_leave_its_line(key):
    line = seed.documents(UUID, {"hostname": "web-1", "ssh_keys": [key]})["meta-data"].decode().splitlines()[2]
    assert json.loads(line.partition(": ")[2]) == [key]


def test_an_unknown_part_is_refused_without_its_value():
    with pytest.raises(InvalidInput) as caught:
        seed.documents(UUID, {"hostname": "web-1", "password": "secret"})
    assert "secret" not in str(caught.value.to_result())


def test_the_seed_is_for_its_owner_only(tmp_path):
    os.makedirs(str(tmp_path / "instances" / UUID))
    before = os.umask(0)
    try:
        path = seed.build(str(tmp_path), SimpleNamespace(uuid=UUID, spec={}), {"hostname": "web-1"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == [seed.FILE]


@pytest.mark.parametrize(
    "disks, devices",
    [
        (["root"], None),
        (["root", "swap"], ["/dev/disk/by-label/swap"]),
        (["root", "ephemeral0", "swap"], ["/dev/disk/by-label/ephemeral0", "/dev/disk/by-label/swap"]),
    ],
)
def test_swap_and_ephemeral_disks_are_used_by_vendor_data_and_the_user_data_stays_as_given(disks, devices):
    text = "#cloud-config\nmounts: [[vdz, /srv]]\n"
    files = seed.documents(UUID, {"hostname": "web-1", "user_data": text}, disks)
    assert files["user-data"] == text.encode()
    if devices is None:
        assert "vendor-data" not in files
    else:
        head, _line, rest = files["vendor-data"].decode().partition("\n")
        assert head == "#cloud-config"
        mounts = json.loads(rest)["mounts"]
        assert [mount[0] for mount in mounts] == devices
        assert all(len(mount) == 6 and "nofail" in mount[3] for mount in mounts)


def test_the_labels_in_vendor_data_are_those_that_the_disks_are_made_with(monkeypatch):
    made = []
    monkeypatch.setattr(disk, "run", made.append)
    monkeypatch.setattr(disk, "_make_sparse", lambda *_: None)
    flavor = {"root_gb": 1, "ephemeral_gb": 1, "swap": 64}
    for planned in disk.plan({"flavor": flavor})[1:]:
        disk.make(planned, "/x", None)
        label = made[-1][made[-1].index("-L") + 1]
        assert seed.MOUNTS[planned.name][0] == "/dev/disk/by-label/" + label


def test_a_build_writes_the_mounts_of_its_disks(prepared, wanted):
    case = Case(prepared, wanted(ephemeral_gb=1, swap=64))
    case.make()
    image = (case.root.parent / seed.FILE).read_bytes()
    assert b"/dev/disk/by-label/ephemeral0" in image and b"/dev/disk/by-label/swap" in image


def test_the_file_system_of_an_ephemeral_disk_grows_with_the_disk_and_swap_is_none():
    assert "x-systemd.growfs" in seed.MOUNTS["ephemeral0"][3].split(",")
    assert "x-systemd.growfs" not in seed.MOUNTS["swap"][3].split(",")


WAS = seed.new_instance_id


def id_in_seed(case):
    return re.search(rb"instance-id: ([0-9a-f-]{36})\n", case.root.with_name(seed.FILE).read_bytes()).group(1).decode()


def test_an_instance_that_is_made_anew_has_another_instance_id_for_what_boots_from_its_volume(prepared, wanted):
    """cloud-init applies addresses and keys to a new instance-id only, and the root file system may be that of before."""
    case, ids = Case(prepared, wanted("web1")), []
    for token in ("t1", "t2"):
        claim._write(prepared.store, case.spec, token, {"vcpus": 1, "memory_mb": 64, "disk_gb": 1})
        case.instance().started(token, case.seed)
        ids.append(id_in_seed(case))
        case.instance().absent()
    assert len({*ids, case.uuid}) == 3


def test_the_instance_id_stays_when_a_build_goes_on_and_when_record_or_seed_is_made_again(prepared, wanted):
    state_directory.establish(prepared.store)
    case = Case(prepared, wanted("web1"))
    with pytest.raises(Killed):
        case.make(killed_at="build define")
    begun = id_in_seed(case)
    case.instance().started("t1", case.seed)
    assert id_in_seed(case) == begun
    shutil.rmtree("%s/instances/%s" % (prepared.store.state_dir, case.uuid))
    assert record_copy.take_back(case.instance(), [7, 3])
    case.root.with_name(seed.FILE).unlink()
    assert mend.mend(case.instance(), case.seed) and id_in_seed(case) == begun


def test_a_guest_of_an_older_version_keeps_its_uuid_as_its_instance_id(prepared, wanted, monkeypatch):
    """Another one would run all of cloud-init in it again."""
    monkeypatch.setattr(build.seed, "new_instance_id", lambda _record: "")
    case = Case(prepared, wanted("web1"))
    case.make()
    monkeypatch.setattr(build.seed, "new_instance_id", WAS)
    case.root.with_name(seed.FILE).unlink()
    assert mend.mend(case.instance(), case.seed) and id_in_seed(case) == case.uuid


IGNITION = '{"ignition": {"version": "3.3.0"}, "passwd": {"users": [{"name": "CANARY"}]}}'


def test_ignition_reads_its_config_from_a_file_that_qemu_shows_and_nobody_else_may_read(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.spec["ignition"], case.seed["user_data"] = True, IGNITION
    case.make()
    path = case.root.with_name("ignition")
    assert json.loads(path.read_text()) == json.loads(IGNITION)
    assert path.stat().st_size % 512 == 0 and stat.S_IMODE(path.stat().st_mode) == 0o600
    entries = {entry.get("name"): entry.get("file") for entry in ElementTree.fromstring(case.domain.xml).iter("entry")}
    assert entries == dict.fromkeys(("opt/com.coreos/config", "opt/org.flatcar-linux/config"), str(path))
    assert "CANARY" not in case.domain.xml and "CANARY" not in json.dumps(case.record.to_dict())
    assert IGNITION.encode() in case.root.with_name(seed.FILE).read_bytes(), "some read it there"
    assert [part.file for part in disk.planned(case.spec)][-3:-1] == [seed.FILE, "ignition"], "a move takes it along"


def test_the_file_of_ignition_is_made_again_as_the_seed_is(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.spec["ignition"], case.seed["user_data"] = True, IGNITION
    case.make()
    path = case.root.with_name("ignition")
    was = path.read_bytes()
    path.unlink()
    with pytest.raises(DiskChainChanged, match="ignition is missing"):
        disk_chain.check(case.host, case.record)
    assert mend.mend(case.instance(), case.seed) and path.read_bytes() == was
    disk_chain.check(case.host, case.record)
    case.instance().absent()
    assert not path.exists()


def test_a_guest_without_ignition_is_shown_nothing(prepared, wanted):
    case = Case(prepared, wanted("web1"))
    case.make()
    assert "fwcfg" not in case.domain.xml and not case.root.with_name("ignition").exists()
