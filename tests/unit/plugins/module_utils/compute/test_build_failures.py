# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A build that fails: which errors go to another host, which count against this one, and that nothing stays behind."""

from __future__ import annotations

import errno

import fake_libvirt
import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors as compute_errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import counters
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError


def libvirt_error(name, text="unsupported configuration"):
    return fake_libvirt.libvirtError(fake_libvirt.CONSTANTS.get(name, 1), text)


def fails(error):
    def call(*_args, **_kwargs):
        raise error

    return call


def attempt(host, request):
    """(the error, whether anything is left, the host's failed builds)"""
    case = Case(host, request)
    with pytest.raises(BerthError) as caught:
        case.make()
    left = [case.record, case.domain, case.root.parent.exists() or None]
    assert left == [None, None, None]
    return caught.value, round(counters._faded(counters.FAILED_BUILDS.peek(host.store.state_dir)))


@pytest.mark.parametrize("code, retryable", [
    ("ImageInvalid", False), ("ImageUrlDead", False), ("ImagePathRefused", False), ("FlavorTooSmall", False),
    ("ImageUnavailable", True),
])  # fmt: skip
def test_a_fault_of_the_image_counts_against_no_host(prepared, wanted, monkeypatch, code, retryable):
    monkeypatch.setattr(image, "ensure", fails(getattr(compute_errors, code)("bad")))
    error, failed = attempt(prepared, wanted())
    assert (error.code, error.retryable, failed) == (code, retryable, 0)


def test_a_missing_bridge_goes_to_another_host_and_counts_against_none(prepared, wanted, monkeypatch, tmp_path):
    monkeypatch.setattr(network, "SYS_NET", str(tmp_path))
    spec, seed = wanted()
    spec["networks"] = [{"type": "bridge", "source": "br9", "mac": "52:54:00:00:00:01", "model": "virtio"}]
    error, failed = attempt(prepared, (spec, seed))
    assert (error.code, error.retryable, failed) == ("NetworkNotFound", True, 0)


def test_a_machine_type_that_a_host_lacks_goes_to_another_and_counts_against_none(prepared, wanted):
    error, failed = attempt(prepared, wanted(extra_specs={"hw:machine_type": "pc-q35-99.0"}))
    assert (error.code, error.retryable, failed) == ("GuestNotSupported", True, 0)
    assert "pc-q35-99.0" in str(error)


@pytest.mark.parametrize("name", ["VIR_ERR_CONFIG_UNSUPPORTED", "VIR_ERR_XML_ERROR", "VIR_ERR_XML_INVALID_SCHEMA"])
def test_a_definition_that_libvirt_refuses_goes_to_another_host_and_counts_against_none(
    prepared, wanted, monkeypatch, name
):
    monkeypatch.setattr(prepared.connection, "defineXMLFlags", fails(libvirt_error(name)))
    error, failed = attempt(prepared, wanted())
    assert (error.code, error.retryable, failed) == ("GuestNotSupported", True, 0)


@pytest.mark.parametrize("extra_specs", [{"hw:disk_bus": "evil"}, {"hw:cpu_sockets": "many"}])
def test_an_error_that_nobody_foresaw_is_typed_and_leaves_nothing(prepared, wanted, extra_specs):
    error, failed = attempt(prepared, wanted(extra_specs=extra_specs))
    assert (error.code, error.retryable, failed) == ("BuildBroken", False, 0)


def test_an_error_that_nobody_foresaw_before_the_build_gives_the_claim_back(prepared, wanted, monkeypatch):
    monkeypatch.setattr(type(prepared), "require_prepared", fails(RuntimeError("odd")))
    error, failed = attempt(prepared, wanted())
    assert (error.code, failed) == ("BuildBroken", 0)


@pytest.mark.parametrize("error, code", [
    (OSError(errno.ENOSPC, "No space left on device"), "BuildFailed"),
    (compute_errors.BuildFailed("qemu-img failed"), "BuildFailed"),
    (LibvirtUnavailable("gone"), "LibvirtUnavailable"),
])  # fmt: skip
def test_a_hosts_own_trouble_counts_against_it(prepared, wanted, monkeypatch, error, code):
    monkeypatch.setattr(image, "ensure", fails(error))
    found, failed = attempt(prepared, wanted())
    assert (found.code, found.retryable, failed) == (code, True, 1)


def test_a_guest_that_does_not_start_counts_against_its_host(prepared, wanted, monkeypatch):
    monkeypatch.setattr(fake_libvirt.FakeDomain, "createWithFlags", fails(libvirt_error("other", "internal error")))
    error, failed = attempt(prepared, wanted())
    assert (error.code, error.retryable, failed) == ("BuildFailed", True, 1)
