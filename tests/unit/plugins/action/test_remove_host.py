# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A KVM host leaves the fleet: not while anything is, or may be, on it; then its certificates count no more."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from held_case import WEB, held
from leaving_case import CLEANED, NOTHING, SILENT, UUIDS, Hosts, up

from ansible_collections.berth.kvm.plugins.action import remove_host
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import authority as ca
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, trust
from ansible_collections.berth.kvm.plugins.plugin_utils.revoked import Signed

DB = {
    "uuid": volume_uuid("default", "db"),
    "name": "db",
    "project_id": "default",
    "size_gb": 2,
    "pool": "berth",
    "role": "OWN",
    "instance": None,
    "phase": "active",
}


def request():
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    asked = asked.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return asked.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture(autouse=True)
def kvms(monkeypatch):
    made = Hosts()
    monkeypatch.setattr(delegates, "run_on", made.run_on)
    return made


class Fleet:
    def __init__(self, directory):
        self.directory = str(directory)

    def prepare(self, host, **held_there):
        """What the host gets of a run of prepare_hosts."""
        known = {"request": request(), "certificate": "", "authority": "", "revoked": "", **held_there}
        controller = Controller({"kvm_hosts": [host]})
        values = {**controller.task_vars(), "inventory_hostname": host, "ansible_play_hosts": [host]}
        arguments = {"held": dict.fromkeys(ca.KINDS, known), "names": [host], "directory": self.directory}
        return controller.run("sign_certificates", arguments, values)

    def remove(self, name="kvm3", check_mode=False, lost="", instances=(), **answers):
        """``answers``: of hosts, all up and empty unless said; ``instances`` of the inventory."""
        answers = {**{host: up(host) for host in UUIDS}, **answers}
        answers = {host: answer for host, answer in answers.items() if answer}
        run = {"berth_lost_hosts": lost, "berth_ca_directory": self.directory}
        listed = {name: {"berth_flavor": "small"} for name in instances}
        controller = Controller({"kvm_hosts": list(answers), "vms": list(instances)}, {"all": run, **listed})
        controller.register("localhost", __berth_facts={"answers": answers})
        return controller.run("remove_host", {"name": name} if name else {}, check_mode=check_mode)

    def authority(self):
        return ca.Authority(self.directory, "libvirt")

    def book(self):
        return Signed(self.authority(), self.directory)

    def revoked(self, host):
        book = Signed(ca.Authority(self.directory, "libvirt", dry=True), self.directory, dry=True)
        return sorted(map(int, book.hosts.get(host, {}))) == sorted(book.revoked)


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path / "ca")
    made.prepare("kvm1")
    made.prepare("kvm3")
    return made


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(remove_host, "say", lambda *more: lines.extend(more))
    return lines


@pytest.mark.follows("take_out_host")
def test_a_host_that_holds_nothing_is_revoked_once_and_the_others_get_the_list(fleet, said, kvms):
    dry = fleet.remove(check_mode=True)
    assert (dry["changed"], dry["revoked"], fleet.revoked("kvm3")) == (True, 2, False)
    assert fleet_hints.take_out_host("kvm3") not in said, "the run itself would not know that host any more"
    done = fleet.remove()
    assert (done["changed"], done["revoked"], fleet.revoked("kvm3")) == (True, 2, True)
    assert "2 certificates of kvm3 would be revoked." in said and fleet_hints.take_out_host("kvm3") in said
    kvms.cleans = [{"changed": False, **NOTHING}]
    again = fleet.remove()
    assert (again["changed"], again["revoked"]) == (False, 0)
    assert "Nothing of berth was left on kvm3." in said
    given = fleet.prepare("kvm1")["signed"]
    assert all("X509 CRL" in given[kind]["revoked"] for kind in ca.KINDS)


@pytest.mark.follows("empty_host")
@pytest.mark.parametrize(
    "answer, word",
    [
        (up("kvm3", held()), "instance web1"),
        (up("kvm3", held(role="OUT", phase="keep")), "instance web1"),
        (up("kvm3", held(role="CLAIM", phase="claimed")), "instance web1"),
        (up("kvm3", held(role=None, phase=None, foreign=True, managed=True)), "guest web1, which has no record"),
        (up("kvm3", volumes=[DB]), "volume db"),
    ],
)
def test_a_host_that_holds_something_stays_until_it_is_empty(fleet, answer, word):
    refused = fleet.remove(kvm3=answer)
    assert (refused["error_code"], word in refused["msg"]) == ("HostInUse", True), refused["msg"]
    assert refused["msg"].endswith(fleet_hints.empty_host("kvm3")) and not fleet.revoked("kvm3")
    assert fleet.remove(kvm3=up("kvm3"))["revoked"] == 2


def test_guests_that_are_not_berths_are_nobodys_reason(fleet):
    assert fleet.remove(kvm3=up("kvm3", held(role=None, phase=None, foreign=True)))["revoked"] == 2


@pytest.mark.parametrize("reason", ["UNREACHABLE: no route", "LibvirtTimeout: no answer", "InvalidReply: nonsense"])
def test_a_host_that_does_not_say_what_it_holds_stays(fleet, reason):
    refused = fleet.remove(kvm3={"reason": reason})
    assert refused["error_code"] == "HostInUse" and " what is on kvm3" in refused["msg"] and not fleet.revoked("kvm3")


def test_a_lost_host_is_revoked_by_its_name_also_where_the_inventory_has_it_no_more(fleet):
    assert fleet.remove(kvm3=None, lost="kvm3")["revoked"] == 2
    assert fleet.remove(kvm3=SILENT, lost="kvm3")["revoked"] == 0


def test_a_host_that_is_there_is_not_lost(fleet):
    answers = fleet.remove(lost="kvm3")
    assert (answers["error_code"], hints.not_lost("kvm3") in answers["msg"]) == ("HostNotLost", True)
    assert fleet.remove(kvm3={"reason": "LibvirtTimeout: no answer"}, lost="kvm3")["error_code"] == "HostNotLost"
    assert not fleet.revoked("kvm3")


@pytest.mark.follows("give_up_instances")
def test_a_lost_host_stays_while_others_remember_instances_there_that_are_nowhere_else(fleet):
    refused = fleet.remove(kvm1=up("kvm1", seen="kvm3"), kvm3=SILENT, lost="kvm3")
    assert (refused["error_code"], WEB in refused["msg"]) == ("HostInUse", True)
    assert refused["msg"].endswith(fleet_hints.give_up_instances("kvm3"))
    made_anew = up("kvm2", held(generation=[2, 0]), seen=None)
    assert fleet.remove(kvm1=up("kvm1", seen="kvm3"), kvm2=made_anew, kvm3=SILENT, lost="kvm3")["revoked"] == 2


@pytest.mark.parametrize("lost", ["", "kvm3"])
def test_instances_that_others_saw_there_are_called_by_the_names_that_the_hint_wants_in_limit(fleet, lost):
    kvm3 = SILENT if lost else up("kvm3")
    refused = fleet.remove(kvm1=up("kvm1", seen="kvm3"), kvm3=kvm3, lost=lost, instances=["web1"])
    assert "instance web1" in refused["msg"] and WEB not in refused["msg"]


@pytest.mark.follows("find_records")
def test_a_host_that_says_nothing_of_instances_that_others_saw_there_stays(fleet):
    """Its records were lost, or it lies."""
    refused = fleet.remove(kvm1=up("kvm1", seen="kvm3"))
    assert (refused["error_code"], WEB in refused["msg"]) == ("HostInUse", True)
    assert refused["msg"].endswith(fleet_hints.find_records("kvm3")) and not fleet.revoked("kvm3")
    deleted = up("kvm3")
    deleted["notes"] = {
        WEB: {"known": None, "planned": [], "after": 0, "gone": [1, 4]}
    }  # what berth.kvm.delete has it note
    assert fleet.remove(kvm1=up("kvm1", seen="kvm3"), kvm3=deleted)["revoked"] == 2


def test_what_another_machine_of_that_name_held_is_no_reason_to_keep_this(fleet):
    told = up("kvm1", seen="kvm3")
    told["notes"][WEB]["known"]["host_uuid"] = str(uuid.uuid4())
    assert fleet.remove(kvm1=told)["revoked"] == 2


def test_what_others_saw_on_it_by_an_earlier_name_keeps_a_host_that_has_no_record_of_it(fleet):
    told = up("kvm1", seen="kvm3")
    told["notes"][WEB]["known"]["host"] = "old-name"
    refused = fleet.remove(kvm1=told)
    assert (refused["error_code"], WEB in refused["msg"]) == ("HostInUse", True)
    assert not fleet.revoked("kvm3")


def test_what_is_on_a_host_that_was_renamed_does_not_keep_its_old_name_in_the_fleet(fleet):
    told = up("kvm1", seen="kvm3")
    told["notes"][WEB]["known"]["host_uuid"] = UUIDS["kvm2"]
    assert fleet.remove(kvm1=told, kvm3=None, lost="kvm3")["revoked"] == 2


def test_a_name_that_no_host_has_is_refused_with_what_was_probably_meant(fleet):
    for lost in ("", "kvm33"):
        refused = fleet.remove("kvm33", lost=lost)
        assert (refused["error_code"], "Did you mean kvm3?" in refused["msg"]) == ("KvmHostNotFound", True)


@pytest.mark.follows("give_host")
def test_a_run_that_names_no_host_says_how(fleet):
    refused = fleet.remove("")
    assert refused["failed"] and input_hints.give_host("berth_remove_host") in refused["msg"]
    assert fleet.remove("kvm3")["revoked"] == 2


@pytest.mark.follows("note_certificates")
def test_certificates_that_nobody_noted_are_noted_by_prepare_hosts_and_then_revoked(fleet, said):
    authority = ca.Authority(fleet.directory, "libvirt")
    early = authority.sign(request(), ["kvm2"], 730)  # by a version that did not note it
    assert fleet.remove("kvm2")["revoked"] == 0
    assert any(fleet_hints.note_certificates("kvm2") in line for line in said)
    Signed(authority, fleet.directory).note("kvm2", early)  # what prepare_hosts does with what the host has
    assert fleet.remove("kvm2")["revoked"] == 1


@pytest.mark.follows("name_authority")
def test_without_an_authority_none_is_made_and_it_is_said_where_none_is(fleet, tmp_path, said):
    assert Fleet(tmp_path / "none").remove()["revoked"] == 0
    assert not (tmp_path / "none").exists()
    assert any(str(tmp_path / "none") in line and fleet_hints.name_authority() in line for line in said)
    assert fleet.remove()["revoked"] == 2


@pytest.mark.parametrize("part", ["libvirt-ca.key", "qemu-ca.pem"])
@pytest.mark.parametrize("check_mode", [False, True])
def test_an_authority_of_which_a_file_is_gone_is_not_taken_for_one_that_signed_nothing(fleet, part, check_mode):
    path = Path(fleet.directory) / part
    whole = path.read_bytes()
    path.unlink()
    refused = fleet.remove(check_mode=check_mode)
    assert (refused["error_code"], part in refused["msg"]) == ("AuthorityUnsafe", True), refused
    assert refused["msg"].endswith(input_hints.bring_authority_key_back(part))
    path.write_bytes(whole)
    path.chmod(0o600)
    assert fleet.remove()["revoked"] == 2


def test_a_host_that_brings_the_list_back_is_itself_judged_by_it(fleet):
    """An authority from a backup: else the host would keep a certificate that the others refuse until the next run."""
    authority, book = fleet.authority(), fleet.book()
    held = {"request": request(), "authority": authority.text, "revoked": ""}
    held["certificate"] = authority.sign(held["request"], ["kvm2"], 730)
    book.note("kvm2", held["certificate"])
    book.revoke("kvm2")
    (Path(fleet.directory) / "libvirt-crl.pem").unlink()  # the backup is from before the removal
    trusted = trust.Trust(fleet.directory, "libvirt", trust.Rotation())
    why, parts = trusted.brought({**held, "revoked": book.text}, ["kvm2"], 730)
    assert why == ["it was revoked"] and not fleet.book().has_revoked(parts["certificate"])
    assert fleet.book().has_revoked(held["certificate"])


# ---- what is on the host ----------------------------------------------------------------------------------------------


def test_the_host_is_cleaned_with_the_authorities_of_the_fleet_and_then_revoked(fleet, said, kvms):
    done = fleet.remove()
    assert kvms.modules() == ["host_facts", "host_clean"] and done["removed"] == CLEANED["removed"]
    (authorities,) = [given["authorities"] for _host, module, given in kvms.asked if module == "host_clean"]
    assert authorities["libvirt"] == fleet.authority().text
    assert "What berth had put on kvm3 was removed:" in said and "  /etc/berth/host.json" in said
    assert done["diff"] == {"before": "/etc/berth/host.json\n", "after": ""}


def test_libvirt_is_restarted_between_the_two_parts_of_the_cleaning(fleet, kvms):
    first = {"changed": True, "removed": ["/etc/pki/CA/cacert.pem"], "left": [], "restart": ["libvirtd"]}
    kvms.cleans = [first, {"changed": True, "removed": ["/var/lib/berth"], "left": ["x: edited"], "restart": []}]
    done = fleet.remove()
    assert kvms.modules() == ["host_facts", "host_clean", "host_task", "host_clean"]
    assert kvms.asked[-2][2]["arguments"] == {"name": "libvirtd", "state": "restarted"}
    assert (done["removed"], done["left"]) == (["/etc/pki/CA/cacert.pem", "/var/lib/berth"], ["x: edited"])


def test_what_was_found_and_left_is_told(fleet, said, kvms):
    kvms.cleans = [{"changed": True, **CLEANED, "left": ["/etc/libvirt/hooks/qemu.d/berth: edited"]}]
    fleet.remove()
    assert "  /etc/libvirt/hooks/qemu.d/berth: edited" in said


@pytest.mark.follows("empty_host")
def test_what_came_to_the_host_since_it_was_read_keeps_it_and_its_certificates(fleet, kvms):
    error = {"code": "HostNotEmpty", "message": "this host holds instance web7", "retryable": False}
    kvms.cleans = [{"failed": True, "error": error}]
    refused = fleet.remove()
    assert (refused["error_code"], "instance web7" in refused["msg"]) == ("HostInUse", True)
    assert refused["msg"].endswith(fleet_hints.empty_host("kvm3")) and not fleet.revoked("kvm3")
    assert fleet.remove()["revoked"] == 2


@pytest.mark.parametrize(
    "reply",
    [
        {"unreachable": True, "msg": "gone"},
        {"failed": True, "error": {"code": "HostBusy", "message": "locked", "retryable": True}},
        {"changed": True, **CLEANED, "restart": ["libvirtd"]},
    ],
)
def test_a_host_that_was_not_cleaned_whole_is_not_revoked_and_the_next_run_goes_on(fleet, kvms, reply):
    kvms.cleans = [reply] * 2
    refused = fleet.remove()
    assert (refused["error_code"], "Run the same again" in refused["msg"]) == ("HostNotCleaned", True)
    assert not fleet.revoked("kvm3")
    kvms.cleans = []
    assert fleet.remove()["revoked"] == 2


@pytest.mark.follows("clean_later")
def test_a_lost_host_is_asked_nothing_and_cleaned_when_it_is_back(fleet, said, kvms):
    done = fleet.remove(kvm3=SILENT, lost="kvm3")
    assert (kvms.asked, done["removed"], done["revoked"]) == ([], [], 2)
    assert fleet_hints.clean_later("kvm3") in said
    done = fleet.remove()
    assert (kvms.modules()[-1], done["revoked"], done["changed"]) == ("host_clean", 0, True)


@pytest.mark.parametrize(
    "reply",
    [
        {"unreachable": True, "msg": "no route"},
        {"failed": True, "error_code": "WhereaboutsFull", "msg": "WhereaboutsFull: full"},
    ],
    ids=["silent", "full"],
)
def test_a_host_is_not_cleaned_while_another_one_does_not_take_what_it_remembers(fleet, kvms, reply):
    """Nobody else may know it."""
    kvms.deaf["kvm2"] = reply
    refused = fleet.remove()
    assert refused["error_code"] == "HostNotCleaned" and "since kvm2 did not take" in refused["msg"]
    assert "host_clean" not in kvms.modules() and not fleet.revoked("kvm3")
    kvms.deaf = {"kvm3": reply}
    refused = fleet.remove()
    assert refused["error_code"] == "HostNotCleaned" and "since kvm3 did not say" in refused["msg"]
    kvms.deaf.clear()
    assert fleet.remove()["revoked"] == 2


def test_what_the_host_remembers_of_instances_is_told_to_the_others_first(fleet, kvms):
    there = up("kvm3", seen="kvm1")
    there["notes"][WEB].update(gone=[1, 5], after=1)
    fleet.remove(kvm1=up("kvm1", held()), kvm2=up("kvm2", seen="kvm3"), kvm3=there)
    told = {
        "hosts": {UUIDS["kvm1"]: "kvm1"},
        "known": {UUIDS["kvm1"]: {WEB: [1, 4]}},
        "gone": {UUIDS["kvm3"]: {WEB: [1, 5]}},
        "after": {WEB: 1},
        "planned": [],
    }
    assert kvms.told() == [("kvm1", told), ("kvm2", told)]


def test_that_an_instance_is_gone_is_passed_on_of_no_host_that_nobody_knows_to_have_had_it(fleet, kvms):
    there = up("kvm3", seen="kvm1")
    there["notes"][WEB]["gone"] = [9, 0]
    fleet.remove(kvm1=up("kvm1", held()), kvm3=there)
    assert [told["gone"] for _host, told in kvms.told()] == [{}, {}]


OTHER = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b"


def test_what_it_remembers_of_instances_in_no_inventory_is_told_too_and_checked_with_what_the_others_know(fleet, kvms):
    gone = {"known": None, "planned": [], "after": 0, "gone": [4, 1], "left": None}
    kvms.heard_of = {"kvm3": {OTHER: gone}}
    fleet.remove()
    nobody_knows, without = kvms.told()[-1][1], [asked[:2] for asked in kvms.asked if asked[2].get("about") == [OTHER]]
    assert (nobody_knows["gone"], nobody_knows["after"]) == ({}, {OTHER: 4})
    assert without == [("kvm3", "host_facts"), ("kvm1", "host_facts"), ("kvm2", "host_facts")]
    known = {"host": "kvm3", "host_uuid": UUIDS["kvm3"], "generation": [4, 0]}
    kvms.heard_of["kvm1"] = {OTHER: {**gone, "gone": None, "known": known}}
    fleet.remove()
    assert kvms.told()[-2:] == [
        (host, {**nobody_knows, "gone": {UUIDS["kvm3"]: {OTHER: [4, 1]}}}) for host in ("kvm1", "kvm2")
    ]


def test_a_host_that_the_inventory_has_twice_is_not_cleaned(fleet, kvms):
    twin = up("kvm3")
    twin["ansible_facts"]["berth_host"]["uuid"] = UUIDS["kvm2"]
    assert fleet.remove(kvm3=twin)["error_code"] == "HostInUse" and kvms.asked == [] and not fleet.revoked("kvm3")


@pytest.mark.parametrize("there", [True, False], ids=["it answers", "it is lost"])
def test_the_others_are_told_that_a_removed_host_belongs_to_the_fleet_no_more(fleet, kvms, there):
    members = {"members": {known: {"name": name, "changes": 1} for name, known in UUIDS.items()}}
    found = {host: {**up(host), **members} for host in UUIDS}
    found["kvm3"] = found["kvm3"] if there else SILENT
    assert not fleet.remove(**found, lost="" if there else "kvm3").get("failed")
    told = [(host, what["members"][UUIDS["kvm3"]]) for host, what in kvms.told() if "members" in what]
    assert told == [(host, {"name": None, "changes": 2}) for host in ("kvm1", "kvm2")]
