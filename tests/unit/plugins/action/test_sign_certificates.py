# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names in a host's certificates are the inventory's alone: a host that could name itself could name another."""

from __future__ import annotations

import pytest
from controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.action import sign_certificates
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints

OWN_WORD = "192.0.2.1"


def held():
    """A host with keys, whose requests name another host."""
    names = x509.SubjectAlternativeName([x509.DNSName("kvm2")])
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(names, False)
    text = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    text = text.public_bytes(serialization.Encoding.PEM).decode()
    return {kind: {"request": text, "certificate": "", "authority": ""} for kind in ("libvirt", "qemu")}


def answer(directory, names, host="kvm1", check_mode=False, found=None, **variables):
    controller = Controller({"kvm_hosts": ["kvm1", "kvm2"]})
    values = {**controller.task_vars(), "inventory_hostname": host, "ansible_play_hosts": ["kvm1", "kvm2"], **variables}
    arguments = {"held": found or held(), "names": names, "directory": str(directory), "address": OWN_WORD}
    return controller.run("sign_certificates", arguments, values, check_mode)


def sign(*given, **options):
    """The names in the certificates that a host gets, each set of them."""
    signed = answer(*given, **options)["signed"].values()
    certificates = [x509.load_pem_x509_certificate(entry["certificate"].encode()) for entry in signed]
    kind = x509.SubjectAlternativeName
    return [
        {str(name.value) for name in certificate.extensions.get_extension_for_class(kind).value}
        for certificate in certificates
    ]


@pytest.mark.follows("name_migration_address")
def test_the_hosts_own_address_is_signed_only_when_the_inventory_names_it(tmp_path, monkeypatch):
    warned = []
    monkeypatch.setattr(sign_certificates, "warn", warned.append)
    assert sign(tmp_path / "ca", ["kvm1"]) == [{"kvm1"}] * 2
    assert warned.pop().endswith(input_hints.name_migration_address("kvm1", OWN_WORD))
    assert sign(tmp_path / "ca", ["kvm1", OWN_WORD]) == [{"kvm1", OWN_WORD}] * 2
    assert warned == []


@pytest.mark.follows("keep_authority")
def test_a_run_that_makes_an_authority_says_where_and_one_that_finds_it_does_not(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(sign_certificates, "say", lambda *lines: said.extend(lines))
    sign(tmp_path / "ca", ["kvm1"])
    assert "has made" in said[0] and str(tmp_path / "ca") in said[0] and said[1:2] == [input_hints.keep_authority()]
    kept = dict((path.name, path.read_bytes()) for path in (tmp_path / "ca").iterdir())
    said.clear()
    (tmp_path / "copy").mkdir(mode=0o700)
    for name, text in kept.items():
        (tmp_path / "copy" / name).write_bytes(text)
        (tmp_path / "copy" / name).chmod(0o600)
    assert len(sign(tmp_path / "copy", ["kvm2"])) == 2 and said == []
    for host, lines in (("kvm1", 2), ("kvm2", 0)):  # check mode says it once, and makes nothing
        sign(tmp_path / "none", ["kvm1"], host, check_mode=True)
        assert len(said) == lines and all("would make" in line for line in said[:1])
        said.clear()
    assert not (tmp_path / "none").exists()


@pytest.mark.follows("listed_twice")
def test_two_names_of_one_machine_get_no_certificates_and_a_host_with_a_uuid_of_its_own_does(tmp_path):
    """The machine would keep the certificate of one of them."""

    def signed(**uuids):
        controller = Controller({"kvm_hosts": ["kvm1", "kvm2", "kvm3"]})
        for host, uuid in uuids.items():
            controller.register(host, __kvm_host_prepared={"host_uuid": uuid})
        play = {"ansible_play_hosts_all": ["kvm1", "kvm2", "kvm3"], "ansible_play_hosts": ["kvm1", "kvm2", "kvm3"]}
        values = {**controller.task_vars(), **play, "inventory_hostname": "kvm1"}
        arguments = {"held": held(), "names": ["kvm1"], "directory": str(tmp_path / "ca")}
        return controller.run("sign_certificates", arguments, values)

    refused = signed(kvm1="u1", kvm2="u1", kvm3="u3")
    assert refused["error_code"] == "HostIdentityConflict"
    assert "kvm1, kvm2 all answer with the host uuid u1" in refused["msg"] and not (tmp_path / "ca").exists()
    assert refused["error"]["hint"] == fleet_hints.listed_twice("kvm1, kvm2")
    for mended in ({"kvm1": "u1", "kvm3": "u3"}, {"kvm1": "u1", "kvm2": "u2", "kvm3": "u3"}, {"kvm3": "u3"}):
        assert sorted(signed(**mended)["signed"]) == ["libvirt", "qemu"]


@pytest.mark.follows("compare_machines")
def test_a_machine_with_the_certificate_of_another_name_of_the_inventory_gets_none_until_both_are_in_the_run(tmp_path):
    """With --limit to one of its names nobody else would notice that each run replaces the certificate of the other."""

    def signed(hosts, groups, name="new", **uuids):
        controller = Controller({"kvm_hosts": groups})
        for host, uuid in uuids.items():
            controller.register(host, __kvm_host_prepared={"host_uuid": uuid})
        play = {"ansible_play_hosts_all": hosts, "ansible_play_hosts": hosts, "inventory_hostname": name}
        arguments = {"held": found, "names": [name, OWN_WORD], "directory": str(tmp_path / "ca")}
        return controller.run("sign_certificates", arguments, {**controller.task_vars(), **play})

    found = held()
    first = signed(["old"], ["old"], name="old", old="u1")["signed"]
    found = {kind: {**parts, **first[kind]} for kind, parts in found.items()}
    before = sorted((path.name, path.read_bytes()) for path in (tmp_path / "ca").iterdir())
    refused = signed(["new"], ["old", "new"], new="u1")
    assert refused["error_code"] == "HostIdentityConflict"
    assert "new has the certificate of old, which is in the inventory, too" in refused["msg"]
    assert refused["error"]["hint"] == fleet_hints.compare_machines("new", "old")
    assert sorted((path.name, path.read_bytes()) for path in (tmp_path / "ca").iterdir()) == before
    both = signed(["old", "new"], ["old", "new"], old="u1", new="u1")  # what the hint says: one machine
    assert both["error"]["hint"] == fleet_hints.listed_twice("new, old")
    assert (
        signed(["old", "new"], ["old", "new"], new="u1")["error"]["hint"] == refused["error"]["hint"]
    )  # old is silent
    assert sorted(signed(["old"], ["old", "new"], name="old", old="u1")["signed"]) == []  # it has its own already
    for hosts, groups, uuids in (
        (["old", "new"], ["old", "new"], {"old": "u2", "new": "u1"}),  # two machines: one got the other's name
        (["new"], ["new"], {"new": "u1"}),  # renamed
    ):
        assert sorted(signed(hosts, groups, **uuids)["signed"]) == ["libvirt", "qemu"]


def test_on_a_controller_without_the_authority_none_is_made_for_a_host_that_trusts_one(tmp_path):
    theirs = answer(tmp_path / "theirs", ["kvm1"])["signed"]
    found = {kind: {**parts, **theirs[kind]} for kind, parts in held().items()}
    refused = answer(tmp_path / "ca", ["kvm1"], found=found)
    assert refused["error_code"] == "CertificateForeign" and "kvm1 has certificates" in refused["msg"]
    assert str(tmp_path / "ca") in refused["msg"] and not (tmp_path / "ca").exists()


@pytest.mark.follows("keep_authority_of_a_job")
@pytest.mark.parametrize("check_mode", [False, True])
def test_a_job_of_awx_makes_no_authority_that_ends_with_its_container_and_makes_it_on_a_volume(
    tmp_path, monkeypatch, check_mode
):
    monkeypatch.setattr(sign_certificates, "is_in_image", lambda directory: False)
    refused = answer(tmp_path / "ca", ["kvm1"], check_mode=check_mode, awx_job_id=7)
    assert refused["error"]["hint"] == fleet_hints.keep_authority_of_a_job() and "signed" not in refused
    assert not (tmp_path / "ca").exists()
    (tmp_path / "ca").mkdir(mode=0o700)
    assert sign(tmp_path / "ca", ["kvm1"], awx_job_id=7) == [{"kvm1"}] * 2


@pytest.mark.parametrize(
    "root, is_in", [("overlay overlay", True), ("fuse-overlayfs fuse.fuse-overlayfs", True), ("/dev/vda1 ext4", False)]
)
def test_a_directory_of_the_image_is_none_that_stays_after_a_job(tmp_path, root, is_in):
    source, kind = root.split()
    top, mounts = tmp_path.anchor, tmp_path / "mounts"
    mounts.write_text("rootfs / rootfs rw 0 0\n%s / %s rw 0 0\nproc /proc proc rw 0 0\n" % (source, kind))
    assert sign_certificates.is_in_image(top, top, str(mounts)) is is_in
    assert not sign_certificates.is_in_image("/proc", top, str(mounts)), "a volume is another device"


def test_a_job_of_awx_makes_no_authority_in_its_image(tmp_path, monkeypatch):
    (tmp_path / "ca").mkdir(mode=0o700)
    monkeypatch.setattr(sign_certificates, "is_in_image", lambda directory: directory == str(tmp_path / "ca"))
    refused = answer(tmp_path / "ca", ["kvm1"], awx_job_id=7)
    assert refused["error"]["hint"] == fleet_hints.keep_authority_of_a_job() and not list((tmp_path / "ca").iterdir())
