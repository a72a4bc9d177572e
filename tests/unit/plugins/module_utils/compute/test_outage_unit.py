# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that starts guests after a boot: which files it needs, and that nobody else reads its password and key."""

from __future__ import annotations

import configparser
import hashlib
import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import outage_unit
from ansible_collections.berth.kvm.plugins.modules import outage_unit as module

SETTINGS = {"members": [["kvm1", 2379]], "user": "berth-host", "password": "secret", "authority": "PEM"}


@pytest.fixture
def run(tmp_path):
    """run(dry=False, code=None): what the module replies on a machine below ``run.root``, where the code is to be ``CODE``."""

    def play(dry=False, code=None):
        given = {
            "settings": SETTINGS,
            "certificate": "KEY",
            "digest": hashlib.sha256(b"CODE").hexdigest(),
            "code": None,
        }
        if code:
            given["code"] = tmp_path / "sent"
            given["code"].write_bytes(code)
        return module.act(given, outage_unit.OutageUnit(dry, str(play.root)))

    play.root = tmp_path / "root"
    return play


def at(run, path):
    return run.root / path.lstrip("/")


def test_nothing_is_changed_before_the_code_is_there_and_a_second_run_changes_nothing(run):
    told = run(dry=True)
    assert run() == {"changed": False, "files": [], "lacks_code": True} and not run.root.exists()
    done = run(code=b"CODE")
    assert sorted(done["files"]) == sorted(told["files"]) and told["changed"] and told["lacks_code"]
    assert at(run, outage_unit.CODE).read_bytes() == b"CODE"
    for dry in (True, False):
        assert run(dry) == {"changed": False, "files": [], "lacks_code": False}


def test_another_code_is_asked_for(run):
    run(code=b"CODE")
    at(run, outage_unit.CODE).write_bytes(b"of an earlier version")
    assert run()["lacks_code"] and run(dry=True)["files"] == [outage_unit.CODE]


def test_only_root_reads_the_password_and_the_key(run):
    run(code=b"CODE")
    for path in (outage_unit.SETTINGS, outage_unit.CERTIFICATE):
        assert at(run, path).stat().st_mode & 0o777 == 0o600
    assert json.loads(at(run, outage_unit.SETTINGS).read_text()) == SETTINGS


def test_the_unit_runs_the_code_with_its_files_and_all_of_them_go_with_the_host(run):
    run(code=b"CODE")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(at(run, outage_unit.UNIT_PATH))
    given = [outage_unit.CODE, outage_unit.SETTINGS, outage_unit.CERTIFICATE]
    assert unit["Service"]["ExecStart"].split()[-3:] == given
    written = {"/" + str(path.relative_to(run.root)) for path in run.root.rglob("*") if path.is_file()}
    assert written < set(outage_unit.FILES)
