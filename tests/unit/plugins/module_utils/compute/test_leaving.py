# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that leaves is cleaned of what berth put there, and of nothing else; a run that ends anywhere is continued by the next."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_libvirt import HOST_UUID

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotEmpty
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import certificates, leaving, listening, system
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import state_directory
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.claim import claim_all

ROOT = Path(__file__).parents[5]


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Signer:
    """An authority and a certificate that it signed."""

    def __init__(self, top):
        top.mkdir()
        key, self.certificate, request, signed = (top / name for name in ("key", "ca", "request", "signed"))
        new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key)
        openssl(*new, "-x509", "-subj", "/CN=authority", "-out", self.certificate)
        openssl("req", "-new", "-key", key, "-subj", "/CN=kvm1", "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", key, "-out", signed)
        self.signed, self.text = signed.read_text(), self.certificate.read_text()


@pytest.fixture(scope="session")
def signers(tmp_path_factory):
    """(ours, that of somebody else)"""
    top = tmp_path_factory.mktemp("authorities")
    return Signer(top / "ours"), Signer(top / "foreign")


class Leaver:
    def __init__(self, host, top, ours):
        self.host, self.top, self.ours = host, top, ours
        self.places = leaving.Places(
            str(top / "etc/host.json"),
            str(top / "pki"),
            host.hook,
            host.run_dir,
            str(top / "cache"),
            tuple(str(top / "etc" / name) for name in ("registry.json", "registry.pem")),
        )
        host.settings_path = self.places.settings
        host.connection.listAllDomains = lambda _flags: list(host.connection.domains.values())
        host.store.identity_copy = str(top / "etc/state.json")

    def prepare(self, signer=None):
        """What a run of prepare_hosts and some instances leave here."""
        for path in (self.places.settings, self.places.code + "/code", *self.places.unit):
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_text("{}")
        gate.install(self.host.hook, self.host.run_dir)
        state_directory.establish(self.host.store)
        for _owner in range(3):
            state_directory.advance(self.host.store)
        for place in certificates.PLACES.values():
            for name in (place.authority, *place.certificates, *place.keys, place.revoked):
                path = self.top / "pki" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text((signer or self.ours).signed if name in place.certificates else name)

    def clean(self, dry=False):
        authorities = dict.fromkeys(certificates.PLACES, self.ours.text)
        return leaving.clean(self.host, authorities, self.places, dry)

    def files(self):
        return sorted(
            str(path.relative_to(self.top)) for path in self.top.rglob("*") if path.is_file() or path.is_symlink()
        )


@pytest.fixture
def leaver(prepared, tmp_path, signers, monkeypatch):
    monkeypatch.setattr(system, "service_manager", lambda: "other")
    (prepared.pool / "images").mkdir()
    (prepared.pool / "images" / "cached").write_text("image")
    made = Leaver(prepared, tmp_path / "kvm1", signers[0])
    made.prepare()
    return made


def test_all_that_berth_put_there_goes_and_the_pool_stays(leaver):
    before = leaver.files()
    dry = leaver.clean(dry=True)
    assert leaver.files() == before, "check mode changes nothing"
    done = leaver.clean()
    assert done == dry and done["left"] == [] and done["restart"] == []
    assert leaver.files() == ["pool/images/cached"]
    assert not Path(leaver.host.store.state_dir).exists()
    assert leaver.clean() == {"removed": [], "left": [], "restart": []}


def test_what_is_removed_is_what_the_page_lists():
    page = (ROOT / "docs" / "live-migration.md").read_text()
    places = leaving.Places()
    own = (places.settings, places.hook, places.run_dir, places.code, *places.unit[1:])
    for path in (*own, state_directory.COPY, "/var/lib/berth"):
        assert "`%s" % path.rstrip("/") in page, path
    for place in certificates.PLACES.values():
        for path in place.paths():
            assert "/".join(path.split("/")[:4]) in page, path


@pytest.mark.parametrize("name", ["instances/%s", "volumes/%s", "set-aside/%s-1.4"])
def test_files_without_a_record_keep_the_host_as_it_is(leaver, name):
    left = leaver.host.pool / (name % HOST_UUID)
    left.mkdir(parents=True)
    before = leaver.files()
    for dry in (True, False):
        with pytest.raises(HostNotEmpty, match=str(left)):
            leaver.clean(dry)
    assert leaver.files() == before


def test_a_pool_of_others_with_directories_of_the_same_names_is_no_reason_to_stay(leaver):
    (leaver.host.pool / "volumes" / "backup").mkdir(parents=True)
    leaver.clean()
    assert (leaver.host.pool / "volumes" / "backup").exists()


@pytest.mark.parametrize("foreign, closes", [("libvirt", False), ("qemu", True)])
def test_the_port_stays_open_where_libvirts_certificate_is_that_of_somebody_else(
    leaver, signers, monkeypatch, foreign, closes
):
    for name in certificates.PLACES[foreign].certificates:
        (leaver.top / "pki" / name).write_text(signers[1].signed)
    done = []
    monkeypatch.setattr(system, "service_manager", lambda: "systemd")
    monkeypatch.setattr(leaving, "run", lambda arguments, **_more: done.append(arguments))
    leaver.clean()
    assert bool(done) == closes


def test_a_claim_that_comes_before_the_lock_is_taken_keeps_the_host_as_it_is(leaver, wanted, monkeypatch):
    spec, _seed = wanted()
    lock, before = leaver.host.store.host_lock, leaver.files()
    found = []
    monkeypatch.setattr(leaver.host.store, "records", lambda: found)

    def claimed_first():
        found.append(SimpleNamespace(name=spec["name"]))
        return lock()

    monkeypatch.setattr(leaver.host.store, "host_lock", claimed_first)
    with pytest.raises(HostNotEmpty, match="instance web1"):
        leaver.clean()
    assert [name for name in leaver.files() if not name.endswith("host.lock")] == before


@pytest.mark.follows("prepare_host")
def test_after_the_first_step_nothing_is_claimed_also_by_a_run_that_had_read_the_settings(leaver, wanted):
    leaver.clean()
    spec, _seed = wanted()
    with pytest.raises(Exception, match="berth.kvm.remove_host took it out of the fleet") as refused:
        claim_all(leaver.host, [{"spec": spec, "token": "t1"}])
    assert "berth.kvm.prepare_hosts --limit kvm1" in refused.value.hint
    assert leaver.host.store.records() == []
    leaver.prepare()
    leaver.host.require_member()


def cut_after(steps, whole, monkeypatch):
    """The functions ``whole`` of durable end the run when they have been called so often together."""
    left = [steps]

    def cut(function):
        def call(*args, **more):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return function(*args, **more)

        return call

    for name, function in whole.items():
        monkeypatch.setattr(durable, name, cut(function))


def test_a_run_that_ends_anywhere_leaves_a_state_that_is_trusted_and_the_next_goes_on(leaver, monkeypatch):
    """Each file that is removed, and each that is written, may be the last."""
    whole, steps = {name: getattr(durable, name) for name in ("remove_at", "write_in")}, 0
    while True:
        leaver.prepare()
        cut_after(steps, whole, monkeypatch)
        try:
            leaver.clean()
            break
        except KeyboardInterrupt:
            steps += 1
        finally:
            for name, function in whole.items():
                monkeypatch.setattr(durable, name, function)
        assert state_directory.look(leaver.host.store)["fault"] is None, steps
        assert steps == 1 or not Path(leaver.places.settings).exists(), "the settings go first"
        leaver.clean()
        assert leaver.files() == ["pool/images/cached"], steps
    assert steps > 15


def test_certificates_of_another_authority_and_an_edited_hook_stay_and_are_told(leaver, signers):
    leaver.prepare(signers[1])
    Path(leaver.host.hook).write_text("#!/bin/sh\n# mine\n")
    before = [name for name in leaver.files() if name.startswith(("pki", "hooks", "pool"))]
    done = leaver.clean()
    assert leaver.files() == before
    assert len(done["left"]) == 3 and "not as berth wrote it" in done["left"][2]
    assert all("no authority of this fleet" in line for line in done["left"][:2])


def test_one_foreign_certificate_among_ours_keeps_all_of_its_place(leaver, signers):
    (leaver.top / "pki/libvirt/servercert.pem").write_text(signers[1].signed)
    leaver.clean()
    assert (leaver.top / "pki/libvirt/private/serverkey.pem").exists()
    assert not (leaver.top / "pki/qemu/server-key.pem").exists()


def test_systemd_closes_the_port_before_the_certificates_go_and_libvirt_is_restarted_before_the_rest(
    leaver, monkeypatch
):
    done = []
    monkeypatch.setattr(system, "service_manager", lambda: "systemd")
    monkeypatch.setattr(listening, "MODULAR", str(leaver.top.with_name("virtqemud-sock")))
    Path(listening.MODULAR).touch()
    monkeypatch.setattr(gate, "running", lambda: {"17:1": "virtqemud", "19:1": "virtproxyd"})

    def run(arguments, **more):
        done.append((arguments, (leaver.top / "pki/libvirt/private/serverkey.pem").exists()))

    monkeypatch.setattr(leaving, "run", run)
    assert leaver.clean()["restart"] == ["virtproxyd", "virtqemud"]
    assert done[0] == (["systemctl", "disable", "--now", "virtproxyd-tls.socket"], True)
    assert Path(leaver.host.store.state_dir).exists() and Path(leaver.places.code).exists()
    monkeypatch.setattr(gate, "running", lambda: {"18:2": "virtqemud", "19:1": "virtproxyd"})
    assert leaver.clean()["restart"] == ["virtproxyd"], "a run that ended before this restart"
    monkeypatch.setattr(gate, "running", lambda: {"18:2": "virtqemud", "20:2": "virtproxyd"})
    assert leaver.clean()["restart"] == [] and leaver.files() == ["pool/images/cached"]


def test_berths_part_of_libvirts_configuration_goes_and_libvirt_is_restarted(leaver, monkeypatch):
    monkeypatch.setattr(listening, "CONFIGURATION", str(leaver.top / "libvirt"))
    monkeypatch.setattr(system, "service_manager", lambda: "other")
    monkeypatch.setattr(gate, "running", lambda: {"17:1": "libvirtd"})
    path = Path(listening.path())
    path.parent.mkdir()
    path.write_text("mine = 1\n")
    listening.settle("127.0.0.1")
    assert "berth's part of %s" % path in leaver.clean(dry=True)["removed"] and "listen_addr" in path.read_text()
    done = leaver.clean()
    assert done["restart"] == ["libvirtd"] and path.read_text() == "mine = 1\n"


def test_files_of_others_in_the_directory_of_the_settings_stay(leaver):
    Path(leaver.places.settings).with_name("notes.txt").write_text("mine")
    assert any("etc: " in line for line in leaver.clean()["left"])
    assert "etc/notes.txt" in leaver.files()


def test_a_link_in_place_of_a_directory_is_left_with_what_it_leads_to(leaver, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    (Path(leaver.places.code) / "code").unlink()
    Path(leaver.places.code).rmdir()
    Path(leaver.places.code).symlink_to(elsewhere)
    assert any("cache: it is no directory" in line for line in leaver.clean()["left"])
    assert (elsewhere / "precious").exists()
