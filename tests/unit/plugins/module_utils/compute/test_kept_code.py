# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of modules that a host keeps: real files, and the Python that runs the test."""

from __future__ import annotations

import base64
import errno
import importlib.util
import io
import json
import os
import runpy
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import kept_code

DIGEST = "5" * 64
SOURCES = {
    "whole/__init__.py": b"",
    "whole/it.py": b"def fail():\n    raise ValueError('here')\n\n\nSAYS = 'what was sent'\n",
}


def zip_of(sources):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sources.items():
            archive.writestr(name, content)
    return base64.b64encode(made.getvalue()).decode()


SENT = zip_of(SOURCES)


@pytest.fixture(name="directory")
def directory_(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_code, "DIRECTORY", str(tmp_path / "berth"))
    monkeypatch.setattr(kept_code, "_forget_the_folder", lambda: None)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("whole", "whole.it"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "berth"


def keep(digest=DIGEST, sent=SENT):
    return kept_code.kept_zip(digest, True, sent)


def is_missing(capsys, digest=DIGEST):
    """Whether the host says that it lacks the code, and ends the run."""
    try:
        kept_code.kept_zip(digest, True)
    except SystemExit as ended:
        assert not ended.code and json.loads(capsys.readouterr().out) == {"missing_code": digest}
        return True
    except (EOFError, ValueError, TypeError):
        pass  # what is no whole code was taken for one
    return False


def only_file(directory):
    [name] = os.listdir(str(directory))
    return directory / name


def test_code_that_was_sent_is_kept_and_used_in_the_next_run(directory, capsys):
    assert is_missing(capsys) and not directory.exists()
    assert keep() == kept_code.kept_zip(DIGEST, True) == kept_code.NO_FILES
    assert directory.stat().st_mode & 0o777 == 0o700 and only_file(directory).stat().st_mode & 0o777 == 0o600


def test_what_is_kept_is_compiled_for_this_python_and_says_where_it_failed(directory):
    keep()
    assert runpy.run_module("whole.it", run_name="__main__", alter_sys=True)["__name__"] == "__main__"
    it = importlib.import_module("whole.it")

    assert it.SAYS == "what was sent" and it.__file__ == "%s/whole/it.py" % directory
    assert it.__package__ == "whole" and sys.modules["whole"].__path__ == []
    try:
        it.fail()
    except ValueError:
        assert '"%s/whole/it.py", line 2, in fail' % directory in traceback.format_exc()


def test_python_takes_from_what_is_kept_what_is_in_it_and_all_else_from_where_it_was(directory, tmp_path, monkeypatch):
    (tmp_path / "whole.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    keep()
    assert importlib.util.find_spec("whole").loader is sys.meta_path[0]
    it = importlib.import_module("whole.it")

    assert it.SAYS == "what was sent" and sys.meta_path[0].find_spec("json") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("whole.other")


def test_the_zip_in_place_of_what_is_kept_is_one_that_ansibles_wrapper_can_add_to(directory):
    file = io.BytesIO(base64.b64decode(keep()))
    with zipfile.ZipFile(file, "a") as archive:
        assert archive.namelist() == []
        archive.writestr("sitecustomize.py", "")
    assert zipfile.ZipFile(file).namelist() == ["sitecustomize.py"]


def test_another_code_or_another_python_does_not_take_it(directory, capsys, monkeypatch):
    keep()
    assert is_missing(capsys, "6" * 64)
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"4321")
    assert is_missing(capsys)


@pytest.mark.parametrize("keep_bytes", [0, 10, 31, 32, 500, -1])
def test_a_file_that_was_cut_off_is_as_if_it_were_not_there(directory, capsys, keep_bytes):
    keep()
    file = only_file(directory)
    file.write_bytes(file.read_bytes()[:keep_bytes])
    assert is_missing(capsys)
    assert keep() != SENT and not is_missing(capsys)


def test_a_file_that_was_edited_or_has_the_name_of_another_is_as_if_it_were_not_there(directory, capsys):
    keep()
    file = only_file(directory)
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"what was sent", b"what is wrong"))
    assert is_missing(capsys)
    file.write_bytes(whole)
    file.rename(str(file).replace(DIGEST, "6" * 64))
    assert is_missing(capsys, "6" * 64)


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_others_may_have_written_is_not_used_and_stays_as_it_is(directory, capsys, monkeypatch, what):
    keep()
    path = only_file(directory) if what == "file" else directory
    os.chmod(str(path), path.stat().st_mode | 0o020)
    assert is_missing(capsys)
    os.chmod(str(path), path.stat().st_mode & 0o700)
    assert not is_missing(capsys)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert is_missing(capsys) and keep() == SENT


@pytest.mark.parametrize("what", ["file", "directory"])
def test_no_link_is_followed(directory, tmp_path, capsys, what):
    keep()
    path = only_file(directory) if what == "file" else directory
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert is_missing(capsys)
    if what == "directory":
        assert keep() == SENT and path.is_symlink()
    else:
        assert keep() != SENT and not path.is_symlink()


def test_a_pipe_or_a_directory_of_its_name_holds_nothing_up(directory, capsys):
    keep()
    file = only_file(directory)
    file.unlink()
    os.mkfifo(str(file), 0o600)
    assert is_missing(capsys)
    file.unlink()
    file.mkdir(0o700)
    assert is_missing(capsys) and keep() == SENT


def test_check_mode_uses_what_is_kept_and_keeps_and_touches_nothing(directory, capsys):
    assert kept_code.kept_zip(DIGEST, False, SENT) == SENT and not directory.exists()
    kept = keep()
    assert kept != SENT
    os.utime(str(only_file(directory)), (1000, 1000))
    assert kept_code.kept_zip(DIGEST, False) == kept and only_file(directory).stat().st_mtime == 1000
    assert kept_code.kept_zip(DIGEST, True) == kept and only_file(directory).stat().st_mtime > 1000


@pytest.mark.parametrize("call", ["mkdir", "open", "fsync", "rename", "listdir"])
@pytest.mark.parametrize("trouble", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_where_nothing_can_be_kept_the_module_runs_as_it_was_sent(directory, monkeypatch, call, trouble):
    def refuse(*_args, **_how):
        raise OSError(trouble, os.strerror(trouble))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        assert keep() == SENT
    assert not directory.exists() or not [name for name in os.listdir(str(directory)) if name.startswith(".")]


def test_a_source_that_this_python_does_not_compile_is_no_error_of_the_cache(directory):
    sent = zip_of({"newer.py": b"match x:\n  :\n"})
    assert keep(sent=sent) == sent and os.listdir(str(directory)) == []


def test_a_directory_that_somebody_deletes_costs_one_more_question(directory, capsys):
    keep()
    only_file(directory).unlink()
    directory.rmdir()
    assert is_missing(capsys) and keep() and not is_missing(capsys)


def test_many_that_keep_and_read_at_once_see_all_of_it_or_nothing(directory):
    keep()
    name, wrong = kept_code._name_of(DIGEST), []
    whole = kept_code._read(name, True)

    def one():
        for _time in range(20):
            kept_code._keep(name, SENT)
            if kept_code._read(name, True) != whole:
                wrong.append(1)

    threads = [threading.Thread(target=one) for _each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(os.listdir(str(directory))) == 1


def test_what_was_not_used_for_longest_goes_first(directory, monkeypatch, capsys):
    monkeypatch.setattr(kept_code, "MOST_FILES", 3)
    digests = [str(number) * 64 for number in range(5)]
    for age, digest in enumerate(digests):
        keep(digest)
        for file in directory.iterdir():
            if file.name.startswith(digest):
                os.utime(str(file), (time.time() - 1000 * (5 - age),) * 2)
    assert [is_missing(capsys, digest) for digest in digests] == [True, True, False, False, False]


def test_files_of_a_time_to_come_go_first_and_the_fresh_one_stays(directory, monkeypatch, capsys):
    monkeypatch.setattr(kept_code, "MOST_FILES", 2)
    for number in range(2):
        keep(str(number) * 64)
    for file in directory.iterdir():
        os.utime(str(file), (time.time() + 10**7,) * 2)
    keep()
    assert not is_missing(capsys) and len(os.listdir(str(directory))) == 2


def test_it_is_bounded_by_bytes_as_well(directory, monkeypatch):
    keep("1" * 64)
    size = only_file(directory).stat().st_size
    monkeypatch.setattr(kept_code, "MOST_BYTES", 2 * size + size // 2)
    for number in range(2, 6):
        keep(str(number) * 64)
    assert len(os.listdir(str(directory))) == 2


def test_nothing_is_imported_from_the_folder_of_who_logs_in(tmp_path):
    """It comes by standard input, to root."""
    (tmp_path / "base64.py").write_text("print('taken over')\n")
    (tmp_path / "json.py").write_text("print('taken over')\n")
    text = Path(kept_code.__file__).read_text("utf-8").replace("/var/cache/berth", str(tmp_path / "berth"))
    text += "\nkept_zip(%r, True)\n" % DIGEST
    done = subprocess.run(
        [sys.executable, "-"],
        input=text,
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        universal_newlines=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"missing_code": DIGEST}


@pytest.mark.parametrize("content", [b"", b"no code", b"i\x00\x00\x00\x00", b"[\x00\x00\x00\x00", b"\xff" * 99])
def test_a_kept_file_that_is_no_code_is_made_anew(directory, capsys, content):
    """Its digest may be right: whoever wrote it, or a fault of the disk before that, made it of no code."""
    keep()
    (file,) = directory.iterdir()
    file.write_bytes(kept_code._digest(file.name, content) + content)
    assert is_missing(capsys)
    assert keep() == kept_code.NO_FILES and not is_missing(capsys)
