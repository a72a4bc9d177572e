# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package cryptography that is too old is refused with one error, before an authority is opened or a host prepared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from controller import Controller
from packaging.requirements import Requirement

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import CryptographyOutdated
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import authority, trust

ROOT = Path(__file__).resolve().parents[4]
KNOWN = ["42.0.0", "42.0.8", "50.0.2", "142.0"]
OLD = ["3.4.8", "38.0.4", "41.0.7"]


@pytest.fixture
def old(monkeypatch):
    monkeypatch.setattr(authority, "VERSION", "38.0.4")


@pytest.mark.parametrize("version", KNOWN + OLD)
def test_what_is_declared_and_what_is_checked_agree(monkeypatch, version):
    monkeypatch.setattr(authority, "VERSION", version)
    declared = {Requirement(line).name: line for line in declarations()}
    assert declared["cryptography"] == authority.REQUIREMENT
    if Requirement(authority.REQUIREMENT).specifier.contains(version):
        authority.check()
    else:
        with pytest.raises(CryptographyOutdated):
            authority.check()


def declarations():
    return [line for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.follows("install_on_controller")
@pytest.mark.parametrize("version, told", [("38.0.4", "cryptography 38.0.4"), (None, "none")])
def test_the_error_names_the_version_seen_the_one_needed_and_what_to_run(monkeypatch, version, told):
    monkeypatch.setattr(authority, "VERSION", version)
    with pytest.raises(CryptographyOutdated) as refused:
        authority.check()
    assert "cryptography>=42" in refused.value.message and refused.value.message.endswith("which has %s" % told)
    assert refused.value.hint == host_hints.install_on_controller("cryptography>=42")
    asked = Requirement(re.search("pip install '(.+)'", refused.value.hint)[1])
    for installed in KNOWN:
        assert asked.specifier.contains(installed)
        monkeypatch.setattr(authority, "VERSION", installed)
        authority.check()


@pytest.mark.parametrize(
    "opening",
    [
        lambda directory: authority.Authority(directory, "libvirt"),
        lambda directory: authority.Authority(directory, "libvirt", dry=True),
        trust.begin,
    ],
    ids=["authority", "dry", "rotation"],
)
def test_no_authority_is_opened_and_no_file_made(old, tmp_path, opening):
    with pytest.raises(CryptographyOutdated):
        opening(str(tmp_path / "ca"))
    assert list(tmp_path.iterdir()) == []


def checked(**of_hosts):
    """What check_variables says, as prepare_hosts and rotate_authority begin."""
    it = Controller({"kvm_hosts": ["kvm1", "kvm2"]}, of_hosts)
    return it.run("check_variables", {"hosts": ["kvm1", "kvm2"]})


def test_a_run_that_would_sign_certificates_ends_before_a_host_is_prepared(old):
    assert checked()["error_code"] == "CryptographyOutdated"
    assert checked(kvm1={"berth_host_certificates": False})["error_code"] == "CryptographyOutdated"


def test_hosts_without_certificates_of_ours_need_no_such_package(old):
    assert not checked(kvm_hosts={"berth_host_certificates": "false"}).get("failed")
