# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image on the controller: proven before it is sent, sent to a host once, and to none that has it."""

from __future__ import annotations

import hashlib
import os
import types

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import UploadFailed, UploadUnusable
from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import uploads

CONTENT = b"image" * 1000


class Host:
    """An action whose host has a cache: what it is asked, and what is sent."""

    def __init__(self, monkeypatch):
        self.cache, self.sent, self.removed, self.fails = set(), [], [], []
        self._task = types.SimpleNamespace(check_mode=False)
        monkeypatch.setattr(uploads, "run_module", self.ask)

    def ask(self, _action, name, arguments, _task_vars):
        assert name == "cached_image"
        if arguments.get("path"):
            self.cache.add(arguments["image"]["checksum"])
        return {"changed": False, "present": arguments["image"]["checksum"] in self.cache}

    def _make_tmp_path(self):
        return "/tmp/of-ansible"

    def _transfer_file(self, local, remote):
        for failure in self.fails:
            raise failure
        self.sent.append((local, remote))

    def _remove_tmp_path(self, path, force=False):
        assert force
        self.removed.append(path)


@pytest.fixture
def host(monkeypatch):
    return Host(monkeypatch)


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "guest.img"
    path.write_bytes(CONTENT)
    checksum = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    image = {"name": "guest", "checksum": checksum, "disk_format": "raw", "url": None, "upload": str(path)}
    return {"image": image, "pool": "berth", "flavor": {"root_gb": 1}}


def bring(host, spec):
    return uploads.bring(host, spec["image"], spec["pool"], spec["flavor"]["root_gb"], {})


def test_an_image_is_sent_once_to_a_host_and_nothing_stays_behind(host, spec):
    assert bring(host, spec)["present"] and bring(host, spec)["present"]
    assert host.sent == [(spec["image"]["upload"], "/tmp/of-ansible/image")]
    assert host.removed == ["/tmp/of-ansible"]


def test_check_mode_looks_at_the_file_and_sends_nothing(host, spec):
    host._task.check_mode = True
    assert bring(host, spec)["changed"] and not host.sent
    os.unlink(spec["image"]["upload"])
    with pytest.raises(UploadUnusable):
        bring(host, spec)


def test_a_host_that_has_the_image_needs_no_file(host, spec):
    host.cache.add(spec["image"]["checksum"])
    os.unlink(spec["image"]["upload"])
    assert bring(host, spec)["present"]


@pytest.mark.follows("right_upload")
@pytest.mark.parametrize("spoil", ["gone", "a directory", "another content"])
def test_a_file_that_is_not_the_image_is_never_sent(host, spec, spoil):
    path = spec["image"]["upload"]
    os.unlink(path)
    if spoil == "a directory":
        os.mkdir(path)
    elif spoil == "another content":
        with open(path, "wb") as file:
            file.write(b"x")
    with pytest.raises(UploadUnusable) as refused:
        bring(host, spec)
    error = refused.value.to_dict()
    assert (error["retryable"], host.sent) == (False, [])
    assert error["hint"] == input_hints.right_upload(path)
    if spoil == "a directory":
        os.rmdir(path)
    with open(path, "wb") as file:
        file.write(CONTENT)
    assert bring(host, spec)["present"]


@pytest.mark.parametrize(
    "failure, expected",
    [(AnsibleConnectionFailure("gone"), AnsibleConnectionFailure), (AnsibleError("no space left"), UploadFailed)],
)
def test_a_copy_that_fails_is_told_and_cleaned_up(host, spec, failure, expected):
    host.fails = [failure]
    with pytest.raises(expected):
        bring(host, spec)
    assert host.removed == ["/tmp/of-ansible"] and UploadFailed.retryable


def test_of_the_files_of_requests_those_that_are_not_there_are_told_once(tmp_path):
    there, gone = tmp_path / "there.img", tmp_path / "gone.img"
    there.write_bytes(CONTENT)
    images = [
        {"name": path.stem, "upload": str(path), "checksum": "sha256:" + "0" * 64} for path in (there, gone, gone)
    ]
    flavor = {"root_gb": 1}
    (line,) = uploads.missing({"image": image, "flavor": flavor} for image in images)
    assert line.startswith("image gone: %s is no file" % gone)
