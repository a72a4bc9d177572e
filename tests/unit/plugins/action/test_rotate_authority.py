# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The authorities are changed while hosts migrate guests: at no moment does a host refuse another, as openssl judges it."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess

import pytest
from controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import authority as ca
from ansible_collections.berth.kvm.plugins.plugin_utils import trust

pytestmark = [pytest.mark.long, pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")]
NAMES = ("kvm1", "kvm2", "kvm3")
STEPS = ("trust", "sign", "drop", "rest")


def request():
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    asked = asked.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return asked.public_bytes(serialization.Encoding.PEM).decode()


class Fleet:
    """Hosts with their files; each prepare brings them what the controller signed, as role kvm_host does."""

    def __init__(self, scratch, names=NAMES):
        self.scratch, self.directory, self.variables = scratch, str(scratch / "ca"), {}
        self.hosts = {name: dict.fromkeys(ca.KINDS, None) for name in names}
        for host in self.hosts.values():
            host.update(
                {kind: {"request": request(), "certificate": "", "authority": "", "revoked": ""} for kind in host}
            )

    def run(self, action, arguments, name=None, check_mode=False):
        controller = Controller({"kvm_hosts": list(self.hosts)}, self.variables)
        values = controller.task_vars()
        values = {**values, "inventory_hostname": name, "ansible_play_hosts": list(self.hosts)} if name else values
        return controller.run(action, {**arguments, "directory": self.directory}, values, check_mode)

    def prepare(self, *names, pending=False):
        for name in names or self.hosts:
            for again in (False, True):
                arguments = {"held": self.hosts[name], "names": [name], "restart_pending": pending}
                answer = self.run("sign_certificates", arguments, name)
                assert not answer.get("failed"), answer
                for kind, parts in answer["signed"].items():
                    self.hosts[name][kind].update(parts)
                if not answer["rotating"]:
                    break
                assert not (again and answer["signed"])

    def step(self, phase, check_mode=False):
        return self.run("rotate_authority", {"phase": phase}, check_mode=check_mode)

    def refusals(self, kind="libvirt"):
        """(who, by whom): pairs of hosts of which one would not take the other."""
        found = []
        for asking, asked in itertools.permutations(self.hosts, 2):
            theirs, mine = self.hosts[asking][kind], self.hosts[asked][kind]
            (self.scratch / "ca.pem").write_text(mine["authority"])
            (self.scratch / "theirs").write_text(theirs["certificate"])
            lists = []
            if mine["revoked"]:
                (self.scratch / "crl").write_text(mine["revoked"])
                lists = ["-crl_check", "-CRLfile", "crl"]
            argv = ["openssl", "verify", *lists, "-CAfile", "ca.pem", "theirs"]
            if subprocess.run(argv, cwd=self.scratch, capture_output=True, check=False).returncode:
                found.append((asking, asked))
        return found

    def signers(self):
        """The generation of the authority that signed for each host."""
        made = {number: ca.Authority(self.directory, "libvirt", True, number) for number in (1, 2)}
        own = [x509.load_pem_x509_certificate(host["libvirt"]["certificate"].encode()) for host in self.hosts.values()]
        return [next(number for number in made if made[number].has_signed(one)) for one in own]


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    made.prepare()
    return made


def test_the_authorities_are_changed_and_no_host_refuses_another_at_any_moment(fleet):
    old = fleet.hosts["kvm1"]["libvirt"]["authority"]
    for phase in STEPS:
        assert fleet.step(phase)["phase"] == phase
        for name in NAMES:  # after each single host
            fleet.prepare(name)
            assert fleet.refusals() == fleet.refusals("qemu") == []
    assert fleet.signers() == [2] * 3
    assert {old in host["libvirt"]["authority"] for host in fleet.hosts.values()} == {False}
    assert sorted(os.listdir(fleet.directory)) == [
        "libvirt-2-ca.key", "libvirt-2-ca.pem", "libvirt-2-signed.json", "libvirt-ca.pem", "libvirt-signed.json",
        "qemu-2-ca.key", "qemu-2-ca.pem", "qemu-2-signed.json", "qemu-ca.pem", "qemu-signed.json", "rotation.json",
    ]  # fmt: skip
    before = {name: {kind: dict(parts) for kind, parts in host.items()} for name, host in fleet.hosts.items()}
    fleet.prepare()
    assert fleet.hosts == before  # and nothing more is to do


@pytest.mark.follows("go_on_rotating")
@pytest.mark.parametrize("phase, following", [("trust", "sign"), ("sign", "drop"), ("drop", "rest")])
def test_a_silent_host_holds_the_step_back_and_is_named_and_the_next_run_goes_on(fleet, phase, following):
    for earlier in STEPS[: STEPS.index(phase)]:
        fleet.step(earlier)
        fleet.prepare()
    fleet.step(phase)
    fleet.prepare("kvm1", "kvm2")
    refused = fleet.step(following)
    assert (refused["error_code"], refused["error"]["hosts"]) == ("AuthorityStillNeeded", ["kvm3"])
    assert refused["error"]["hint"] == fleet_hints.go_on_rotating() and "kvm3" in refused["msg"]
    assert trust.load(fleet.directory).phase == phase and fleet.refusals() == []
    for again in STEPS:  # the playbook once more
        assert not fleet.step(again).get("failed")
        fleet.prepare()
        assert fleet.refusals() == []
    assert trust.load(fleet.directory) == trust.Rotation(2) and fleet.signers() == [2] * 3


def test_a_host_that_has_not_restarted_libvirt_does_not_trust_the_new_authority_yet(fleet):
    fleet.step("trust")
    fleet.prepare()
    fleet.step("trust")  # an interrupted run, begun again
    fleet.prepare("kvm1", "kvm2")
    fleet.prepare("kvm3", pending=True)
    assert fleet.step("sign")["error"]["hosts"] == ["kvm3"]


def test_what_a_host_showed_in_an_earlier_run_does_not_count_in_the_next(fleet):
    """It may have been restored from a backup since."""
    fleet.step("trust")
    fleet.prepare()
    assert fleet.step("trust")["phase"] == "trust"
    assert fleet.step("sign")["error"]["hosts"] == list(NAMES)


def test_a_host_that_was_away_for_all_of_it_gets_the_new_certificates_when_it_is_prepared(fleet):
    away = fleet.hosts.pop("kvm3")
    for phase in STEPS:
        fleet.step(phase)
        fleet.prepare()
    fleet.hosts["kvm3"] = away
    fleet.prepare()
    assert fleet.refusals() == [] and fleet.signers() == [2] * 3


def test_a_host_that_is_new_in_the_overlap_takes_and_is_taken_by_all(fleet):
    fleet.step("trust")
    fleet.prepare()
    fleet.step("sign")
    fleet.hosts["kvm4"] = Fleet(fleet.scratch, ["kvm4"]).hosts["kvm4"]
    fleet.prepare("kvm4", "kvm1")
    assert fleet.refusals() == []
    assert fleet.step("drop")["error"]["hosts"] == ["kvm2", "kvm3"]


def test_a_host_without_certificates_of_ours_is_not_waited_for(fleet):
    fleet.variables = {"kvm3": {"berth_host_certificates": False}}
    fleet.step("trust")
    fleet.prepare("kvm1", "kvm2")
    assert fleet.step("sign")["phase"] == "sign"


@pytest.mark.parametrize("phase", ["trust", "sign", "drop"])
def test_what_is_revoked_counts_no_more_in_any_phase_and_the_others_still_take_one_another(fleet, phase):
    for step in STEPS[: STEPS.index(phase) + 1]:
        fleet.step(step)
        fleet.prepare()
    gone = fleet.hosts.pop("kvm3")
    for number in trust.load(fleet.directory).trusted:
        for kind in ca.KINDS:
            trust.Signed(ca.Authority(fleet.directory, kind, True, number), fleet.directory).revoke("kvm3")
    fleet.prepare()
    others = fleet.hosts
    fleet.hosts = {"kvm1": others["kvm1"], "kvm3": gone}
    assert fleet.refusals()[-1:] == [("kvm3", "kvm1")]
    for kind in ca.KINDS:
        trusted = trust.Trust(fleet.directory, kind, trust.load(fleet.directory))
        assert any(book.has_revoked(gone[kind]["certificate"]) for book in trusted.books)
        assert not any(book.has_revoked(others["kvm1"][kind]["certificate"]) for book in trusted.books)


def test_check_mode_begins_nothing(fleet):
    assert fleet.step("trust", check_mode=True)["changed"]
    assert trust.load(fleet.directory) == trust.Rotation()


def test_a_directory_from_a_backup_before_the_rotation_is_refused_by_the_hosts_certificates(fleet, tmp_path):
    shutil.copytree(fleet.directory, tmp_path / "backup")
    for phase in STEPS:
        fleet.step(phase)
        fleet.prepare()
    shutil.rmtree(fleet.directory)
    shutil.copytree(tmp_path / "backup", fleet.directory)
    answer = fleet.run("sign_certificates", {"held": fleet.hosts["kvm1"], "names": ["kvm1"]}, "kvm1")
    assert answer["error_code"] == "CertificateForeign"


@pytest.mark.parametrize("text", ["{", "[]", '{"generation": 0, "phase": "rest", "ready": []}', '{"generation": 1}'])
def test_a_damaged_file_of_the_rotation_is_an_error_and_signs_nothing(fleet, text):
    path = os.path.join(fleet.directory, trust.FILE)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o600)
    answer = fleet.run("sign_certificates", {"held": fleet.hosts["kvm1"], "names": ["kvm1"]}, "kvm1")
    assert answer["error_code"] == "AuthorityUnsafe" and trust.FILE in answer["msg"]
