# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent to a host for a module: real Ansible asks a host that is a name for this machine, and notes what it gets."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply, sent_code

REPOSITORY = Path(__file__).resolve().parents[4]
# Plays the host's Python: what it gets, by standard input or as a file, is noted, and its cache is one of the test.
PYTHON = """#!/bin/sh
n=$(ls "$0".d | wc -l)
cat "${1:-/dev/stdin}" > "$0".d/$n
sed 's#/var/cache/berth#'"$0.cache"'#' "$0".d/$n > "$0.module"
exec %s "$0.module"
"""
LIES = """#!/bin/sh
n=$(ls "$0".d | wc -l)
cat > "$0".d/$n
sed -n 's/^zip_data=kept_zip(.\\([0-9a-f]*\\).*/{"missing_code": "\\1"}/p' "$0".d/$n
"""


class Host:
    def __init__(self, folder, script):
        self.python, self.folder = folder / "python", folder
        self.received, self.cache = folder / "python.d", folder / "python.cache"
        self.received.mkdir()
        self.python.write_text(script)
        self.python.chmod(0o755)

    def run(self, *more, pipelining=True, environment=None):
        """The reply to one run of module host_system, and the size of each text that the host got for it."""
        shutil.rmtree(str(self.received))
        self.received.mkdir()
        host = {
            "ansible_connection": "local", "ansible_pipelining": pipelining, "ansible_become": False,
            "ansible_python_interpreter": str(self.python), "ansible_remote_tmp": str(self.folder / "remote"),
        }  # fmt: skip
        inventory = self.folder / "hosts.json"
        inventory.write_text(json.dumps({"all": {"hosts": {"kvm1": host}}}))
        command = [
            Path(sys.executable).parent / "ansible",
            "-i",
            inventory,
            "kvm1",
            "-m",
            "berth.kvm.host_system",
            *more,
        ]
        variables = {
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections"), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder / "home"), "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        }  # fmt: skip
        done = subprocess.run(
            list(map(str, command)), env={**os.environ, **variables, **(environment or {})}, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        self.sizes = [path.stat().st_size for path in sorted(self.received.iterdir())]
        return done.stdout + done.stderr


GOOD = '"service_manager": '


@pytest.fixture(name="host")
def host_(tmp_path):
    return Host(tmp_path, PYTHON % sys.executable)


@pytest.mark.parametrize("pipelining", [True, False])
def test_the_code_of_a_module_is_sent_once(host, pipelining):
    said = host.run(pipelining=pipelining)
    assert GOOD in said and len(host.sizes) == 2 and host.sizes[1] > 150_000, said
    said = host.run(pipelining=pipelining)
    assert GOOD in said and len(host.sizes) == 1 and host.sizes[0] < 20_000, said
    assert host.cache.stat().st_mode & 0o777 == 0o700


def test_all_that_ansible_packs_is_in_the_digest(host):
    """But for the two packages that it writes itself, of which its version tells."""
    host.run()
    (packed,) = re.findall(r"kept_zip\('.*', True, '(.*)'\),", (host.received / "1").read_text())
    known = {sent_code._content(path) for folder in sent_code._folders() for path in sent_code._files(folder)}
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed))) as archive:
        unknown = {name for name in archive.namelist() if archive.read(name) not in known}
    assert unknown <= {"ansible/__init__.py", "ansible/module_utils/__init__.py"}


def test_in_check_mode_the_module_runs_and_the_host_keeps_nothing(host):
    assert GOOD in host.run("--check") and len(host.sizes) == 2 and not host.cache.exists()


def test_whoever_keeps_the_files_of_a_run_gets_them_as_ansible_makes_them(host):
    said = host.run(pipelining=False, environment={"ANSIBLE_KEEP_REMOTE_FILES": "1"})
    assert GOOD in said and len(host.sizes) == 1 and host.sizes[0] > 150_000 and not host.cache.exists()


def test_a_host_that_always_says_it_lacks_the_code_is_sent_it_once_and_has_not_answered(tmp_path):
    host = Host(tmp_path, LIES)
    said = host.run()
    assert "InvalidReply" in said and len(host.sizes) == 2 and "Traceback" not in said, said


@dataclasses.dataclass(frozen=True)
class Built:
    b_module_data: bytes


WRAPPER = sent_code.CALL + b"zip_data='AAAA',\nextensions={},\n)\n"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"#!/usr/bin/perl\n",
        b"zip_data='AAAA',\n",
        sent_code.CALL + b"zip_data='AAAA',\nextensions={'coverage': {}},\n)\n",
        sent_code.CALL + b"zip_data='AAAA',\nzip_data='AAAA',\nextensions={},\n)\n",
        sent_code.CALL + b"zip_data=b'AAAA',\nextensions={},\n)\n",
    ],
)
def test_a_wrapper_of_another_kind_is_sent_as_it_is(text):
    sending, whole = sent_code.Sending("berth.kvm.rescan"), Built(text)
    made = iter([Built(text), whole])
    assert sending.made(lambda: (next(made), "path"), False)[0] is whole
    assert not sending.has_to_have_code({"missing_code": None})


@pytest.mark.parametrize("part", sent_code.USED)
def test_an_ansible_that_packs_in_another_way_sends_the_code_as_it_makes_it(monkeypatch, part):
    monkeypatch.delattr(sent_code.module_common, part)
    sending, made = sent_code.Sending("berth.kvm.rescan"), (Built(b"as it is"), "path")
    assert sending.made(lambda: made, check_mode=False) is made
    assert not sending.has_to_have_code({"missing_code": None})


def test_only_the_digest_that_was_asked_for_is_believed_to_be_missing(monkeypatch):
    sending = sent_code.Sending("berth.kvm.rescan")
    monkeypatch.setattr(sent_code, "of_module", lambda *_given: "a" * 64)
    sending.made(lambda: (Built(WRAPPER), "path"), False)
    for lie in (None, True, "b" * 64, ["a" * 64]):
        assert not sending.has_to_have_code({"missing_code": lie})
    assert sending.has_to_have_code({"missing_code": "a" * 64})
    assert not sending.has_to_have_code({"missing_code": "a" * 64})


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("changed", [False, True])
def test_code_that_changed_while_it_was_packed_is_not_kept(monkeypatch, check_mode, changed):
    """The host would have other code under the digest, and a later run would believe it to be this."""
    sending = sent_code.Sending("berth.kvm.rescan")
    monkeypatch.setattr(sent_code, "of_files", lambda: b"before")
    monkeypatch.setattr(sent_code, "read_files", lambda: b"after" if changed else b"before")
    built, _path = sending.made(lambda: (Built(WRAPPER), "path"), check_mode)
    (asked,) = re.findall(rb"kept_zip\('([0-9a-f]{64})', (?:True|False)\),", built.b_module_data)
    assert sending.has_to_have_code({"missing_code": asked.decode()})
    built, _path = sending.made(lambda: (Built(WRAPPER), "path"), check_mode)
    kept = not check_mode and not changed
    assert b"kept_zip('%s', %r, 'AAAA')," % (asked, kept) in built.b_module_data


def test_a_reply_to_the_whole_code_is_never_asked_for_again():
    """A module runs at most once."""
    asked = []

    def execute(**_how):
        asked.append(1)
        return {"missing_code": "a" * 64}

    action = SimpleNamespace(
        _task=SimpleNamespace(delegate_to="kvm1"), _connection=SimpleNamespace(become=None), _execute_module=execute
    )
    assert host_reply.run_module(action, "host_system", {}, {})["error_code"] == "InvalidReply" and len(asked) == 1


def test_a_module_of_ansibles_own_is_sent_as_it_is(monkeypatch):
    """Such as stat, which Ansible runs before it copies a file: nobody would send its code a second time."""
    built = object()
    monkeypatch.setattr(ActionBase, "_configure_module", lambda *_given, **_how: (built, "stat.py"))
    action = host_reply.HostAction.__new__(host_reply.HostAction)
    assert action._configure_module(module_name="ansible.legacy.stat", module_args={}, task_vars={}) == (
        built,
        "stat.py",
    )
