# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digest of all code that Ansible may pack: another where any byte or name of it is, and only there."""

from __future__ import annotations

import os

import pytest

from ansible_collections.berth.kvm.plugins.plugin_utils import sent_code


@pytest.fixture(name="folder")
def folder_(tmp_path, monkeypatch):
    folder = tmp_path / "module_utils"
    (folder / "compute").mkdir(parents=True)
    for name, text in (("a.py", "x = 1\n"), ("b.py", ""), ("compute/c.py", "y = 2\n")):
        (folder / name).write_text(text)
    monkeypatch.setattr(sent_code, "_folders", lambda: [folder, tmp_path / "not there"])
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.py").write_text("x = 2\n"),
        lambda folder: (folder / "b.py").write_text(" "),
        lambda folder: (folder / "compute" / "c.py").rename(folder / "c.py"),
        lambda folder: (folder / "d.py").write_text(""),
        lambda folder: (folder / "a.py").unlink(),
        lambda folder: (folder / "compute" / "d").mkdir() or (folder / "compute" / "d" / "e.py").write_text(""),
    ],
)
def test_it_is_another_where_any_byte_or_name_is(folder, change):
    before = sent_code.read_files()
    os.utime(folder / "a.py", (0, 0))
    assert sent_code.read_files() == before
    change(folder)
    assert sent_code.read_files() != before


def test_it_is_another_for_another_module_wrapper_or_ansible(folder, monkeypatch):
    monkeypatch.setattr(sent_code, "of_files", sent_code.read_files)
    found = {sent_code.of_module(name, wrapper) for name in ("claim", "rescan") for wrapper in (b"", b"x")}
    monkeypatch.setattr(sent_code, "VERSION", "2.99.0")
    assert len({*found, sent_code.of_module("claim", b"")}) == 5


def test_what_nobody_can_read_is_passed_over(folder):
    (folder / "gone.py").symlink_to("nowhere")
    (folder / "folder.py").mkdir()
    assert sent_code.read_files()
