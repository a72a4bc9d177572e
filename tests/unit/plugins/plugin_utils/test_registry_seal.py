# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seal on what a controller has checked and written, which lets the next one trust it."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.plugin_utils import authority, etcd, registry_access
from ansible_collections.berth.kvm.plugins.plugin_utils.etcd import Seal

KEY, OTHER = keys.facts("0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"), keys.facts("1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a")
OWN = Seal(b"of all controllers")


def test_another_controller_of_the_fleet_knows_the_seal():
    assert Seal(b"of all controllers").opened(KEY, OWN.sealed(KEY, b"facts")) == (b"facts", True)


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        (KEY, OWN.sealed(KEY, b"facts") + b"!"),
        (OTHER, OWN.sealed(KEY, b"facts")),
        (KEY, Seal(b"of a member").sealed(KEY, b"facts")),
        (KEY, bytes(etcd.SEAL_LENGTH) + b"facts"),
        (KEY, b"short"),
        (KEY, b""),
    ],
    ids=["changed", "of another host", "of somebody else", "none", "short", "empty"],
)
def test_what_no_controller_has_written_there_is_not_sealed(key, kept):
    assert OWN.opened(key, kept)[1] is False


def test_what_another_version_has_checked_is_not_sealed(monkeypatch):
    monkeypatch.setattr(etcd, "COLLECTION_VERSION", "0.9.0")
    kept = Seal(b"of all controllers").sealed(KEY, b"facts")
    assert OWN.opened(KEY, kept) == (b"facts", False)


def test_other_keys_have_no_seal():
    key = keys.quota("p")
    assert OWN.sealed(key, b"{}") == b"{}" and OWN.opened(key, b"{}") == (b"{}", False)


def test_controllers_with_the_same_authority_have_the_same_seal(tmp_path):
    for name in ("one", "other"):
        authority.Authority(str(tmp_path / name), registry_access.AUTHORITY)
    first, again, other = (registry_access.engine([], str(tmp_path / each))._seal for each in ("one", "one", "other"))
    kept = first.sealed(KEY, b"facts")
    assert again.opened(KEY, kept)[1] and not other.opened(KEY, kept)[1]
