# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the authorities of a fleet: after doing what each says certificates are signed, and none was lost."""

from __future__ import annotations

import os
import shutil

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import certificates
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, input_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import authority as ca

NOTHING = {"request": "", "certificate": "", "authority": ""}


@pytest.fixture
def directory(tmp_path):
    ca.Authority(str(tmp_path / "ca"), "libvirt")
    return tmp_path / "ca"


def refusal(function, *arguments, kind=ca.AuthorityUnsafe):
    with pytest.raises(kind) as refused:
        function(*arguments)
    return refused.value


@pytest.mark.follows("bring_authority_key_back")
def test_the_key_from_a_backup_is_that_of_the_certificate(directory, tmp_path):
    before = (directory / "libvirt-ca.pem").read_text()
    shutil.move(directory / "libvirt-ca.key", tmp_path / "backup")
    refused = refusal(ca.Authority, str(directory), "libvirt")
    assert refused.hint == input_hints.bring_authority_key_back("libvirt-ca.key")
    shutil.copy2(tmp_path / "backup", directory / "libvirt-ca.key")
    assert ca.Authority(str(directory), "libvirt").text == before


@pytest.mark.follows("private_files")
@pytest.mark.parametrize("name, open_to_all, mode", [(".", 0o755, 0o700), ("libvirt-ca.key", 0o644, 0o600)])
def test_files_that_are_private_again_are_used_as_they_are(directory, name, open_to_all, mode):
    before = (directory / "libvirt-ca.pem").read_text()
    os.chmod(directory / name, open_to_all)
    assert refusal(ca.Authority, str(directory), "libvirt").hint == input_hints.private_files()
    os.chmod(directory / name, mode)
    assert ca.Authority(str(directory), "libvirt").text == before


@pytest.mark.parametrize("dry, mode", [(False, 0o700), (True, 0o755)])
def test_an_empty_directory_that_others_may_read_becomes_that_of_the_authority(tmp_path, dry, mode):
    """As after mkdir: there is nothing yet to hide."""
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca").chmod(0o755)
    ca.Authority(str(tmp_path / "ca"), "libvirt", dry=dry)
    assert (tmp_path / "ca").stat().st_mode & 0o777 == mode


def test_an_empty_directory_into_which_others_may_write_is_refused(tmp_path):
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca").chmod(0o775)
    refusal(ca.Authority, str(tmp_path / "ca"), "libvirt")
    assert (tmp_path / "ca").stat().st_mode & 0o777 == 0o775


@pytest.mark.follows("keep_foreign_certificates")
def test_with_a_copy_of_the_directory_of_their_authority_the_hosts_certificates_stay(directory, tmp_path):
    theirs = ca.Authority(str(tmp_path / "theirs"), "libvirt")
    held = {**NOTHING, "authority": theirs.text}
    refused = refusal(ca.Authority(str(directory), "libvirt").reasons, held, ["kvm1"], kind=ca.CertificateForeign)
    assert refused.hint == input_hints.keep_foreign_certificates()
    shutil.copytree(tmp_path / "theirs", directory, dirs_exist_ok=True)
    assert "authority" not in " ".join(ca.Authority(str(directory), "libvirt").reasons(held, ["kvm1"]))


@pytest.mark.follows("start_libvirt")
def test_a_host_whose_ended_certificate_was_moved_away_gets_a_new_one(directory):
    """libvirt does not start with an ended certificate, and prepare_hosts, which would renew it, needs libvirt."""
    libvirt = ca.Authority(str(directory), "libvirt")
    moved = "/etc/pki/" + certificates.PLACES["libvirt"].certificates[0]
    assert "move %s away" % moved in host_hints.start_libvirt()
    assert libvirt.reasons({**NOTHING, "authority": libvirt.text}, ["kvm1"]) == ["its files are not one certificate"]


@pytest.mark.follows("start_libvirt")
def test_a_host_whose_clock_is_behind_keeps_its_certificate_and_sets_its_clock(directory):
    """It started in 1970, and libvirt calls the certificate not yet active: a new one would not count there either."""
    libvirt = ca.Authority(str(directory), "libvirt")
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = unsigned.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    request = request.public_bytes(serialization.Encoding.PEM).decode()
    held = {"request": request, "certificate": libvirt.sign(request, ["kvm1"], 730), "authority": libvirt.text}
    certificate = ca.read_certificate(held["certificate"])
    assert certificate.not_valid_before_utc.year > 1970 and libvirt.reasons(held, ["kvm1"]) == []
    assert "not yet active: set the host's clock if it is wrong, otherwise move" in host_hints.start_libvirt()
