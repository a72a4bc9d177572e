# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""-e berth_report=FILE has the end of the run, and nothing else that could be taken for it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import stat
from types import SimpleNamespace

import pytest
from placement_case import VM, controller

from ansible_collections.berth.kvm.plugins.plugin_utils import acting, delegates, documents, host_ends, screen


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(action, args, instances) -> (result, what is in the file or None)."""
    path = tmp_path / "out.json"
    monkeypatch.setattr(
        delegates, "run_on", lambda hosts, *_args: {host: {"unreachable": True, "msg": "x"} for host in hosts}
    )

    def act(action, args, instances=None, file=path, **variables):
        it = controller(
            {"a": VM} if instances is None else instances,
            {"berth_report": str(file) if isinstance(file, os.PathLike) else file, **variables},
        )
        values = {**it.task_vars(), "ansible_play_hosts_all": ["localhost"], "inventory_hostname": "localhost"}
        result = it.run(action, args, values)
        return result, json.loads(path.read_text()) if path.is_file() else None

    act.path = path
    return act


def test_a_run_that_has_begun_has_not_finished_whatever_an_earlier_one_wrote(run):
    run.path.write_text('{"finished": true}')
    _result, told = run("read_hosts", {"instances": ["a"], "must_answer": False})
    assert told == {"schema": 1, "finished": False}
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o600


def test_where_a_play_reads_the_hosts_again_the_ends_of_its_hosts_stay(run):
    part = {"__berth_report_part": {"part": "hosts", "names": ["localhost", "h2"]}}
    run("report_host", {}, **part)
    told = run("read_hosts", {"instances": ["a"], "must_answer": False}, **part)[1]
    assert told["hosts"]["localhost"]["state"] == "ok" and told["finished"] is False


@pytest.mark.parametrize(
    "there", ["all: {children: {kvm_hosts: {}}}", '{"mine": 1}', "[1]", "finished", "[" * 200_000], ids=range(5)
)
def test_a_file_that_no_run_wrote_is_kept(run, tmp_path, there):
    mine = tmp_path / "fleet.yml"
    mine.write_text(there)
    result, _told = run("read_hosts", {"instances": ["a"], "must_answer": False}, file=mine)
    assert result["error"]["field"] == "berth_report" and "the existing one is neither" in result["msg"]
    assert mine.read_text() == there


def test_what_is_no_file_is_kept_and_no_link_is_followed_or_replaced(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "out.json")
    (tmp_path / "folder").mkdir()
    for name, why in (
        (tmp_path / "pipe", "the existing one is neither"),
        (tmp_path / "link", "this is a link"),
        (tmp_path / "folder", "this is a directory"),
        ("/dev/stdout", "this is a link"),
        ("/dev/full", "the existing one is neither"),
    ):
        result, told = run("read_hosts", {"instances": ["a"], "must_answer": False}, file=name)
        assert result["error"]["field"] == "berth_report" and told is None
        assert why in result["msg"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and (tmp_path / "link").is_symlink()


def test_an_empty_file_such_as_mktemp_makes_and_a_path_of_the_home_directory_are_written(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run.path.touch()
    assert run("read_hosts", {"instances": ["a"], "must_answer": False}, file="~/out.json")[1] == {
        "schema": 1,
        "finished": False,
    }


def test_where_a_place_was_looked_for_it_has_the_places(run):
    result, told = run("placement", {"instances": ["a"]})
    assert told["finished"] and not told["check"] and set(told["selections"]) == {"a"}
    assert told["selections"]["a"]["host"] == result["selections"]["a"]["host"]


def test_a_plan_is_no_end_unless_there_is_nothing_to_do(run):
    assert run("placement", {"instances": ["a"], "plan": True})[1] is None
    assert run("placement", {"instances": [], "plan": True}, {})[1]["finished"]


@pytest.mark.parametrize(
    "action, args", [("plan_moves", {"action": "cold_migrate"}), ("locate_instances", {"method": "stop"})]
)
def test_a_run_about_no_instance_has_finished(run, action, args):
    told = run(action, {"instances": [], **args})[1]
    assert (told["finished"], told["outcomes"]) == (True, [])
    assert run(action, {"instances": ["a"], **args}, {"a": VM})[1] == told  # not the end: the file is as it was


def test_the_doctor_tells_its_findings(run):
    _result, told = run("doctor", {"asked": [1.0, 2.0]})
    assert {one["code"] for one in told["findings"]} == {"InstanceMissing"} and told["counts"]["note"] == 1


def test_why_tells_the_decision_with_its_receipt(run, own_state):
    placed, _told = run("placement", {"instances": ["a"], "plan": True})
    part = {"part": "decisions", "names": ["a"]}
    result, told = run("show_decision", {"name": "a"}, __berth_report_part=part)
    (path,) = (own_state / "receipts").iterdir()
    assert told["finished"] and told["decisions"]["a"]["state"] == "ok"
    assert told["decisions"]["a"]["receipt_file"] == str(path)
    assert told["decisions"]["a"]["decision"] == json.loads(json.dumps(result["decision"]))
    assert placed["selections"]["a"]["host"] in json.dumps(told["decisions"]["a"]["decision"])


def test_a_replay_tells_the_hosts_that_it_chose_again(run, own_state):
    placed, _told = run("placement", {"instances": ["a"], "plan": True})
    (path,) = (own_state / "receipts").iterdir()
    told = run("replay_receipt", {"path": str(path)})[1]
    assert (told["finished"], told["same"], told["hosts"]) == (True, True, {"a": [placed["selections"]["a"]["host"]]})


def test_the_check_of_the_variables_begins_the_file(run):
    run.path.write_text('{"finished": true}')
    assert run("check_variables", {})[1] == {"schema": 1, "finished": False}


def test_where_each_host_ends_for_itself_the_run_has_finished_when_the_last_one_has(run):
    part = {"part": "hosts", "names": ["localhost", "h2"]}
    told = run("report_host", {}, __berth_report_part=part)[1]
    assert (told["finished"], told["hosts"]) == (False, {"localhost": {"changed": False, "state": "ok"}})
    again = run("report_host", {"failed": True}, __berth_report_part=part)[1]
    assert again == told  # the first end counts
    run.path.write_text(json.dumps({**told, "hosts": {"h2": {"changed": True, "state": "failed"}}}))
    assert run("report_host", {}, __berth_report_part=part)[1]["finished"]


@pytest.mark.parametrize("text", [None, "", '{"finished": true, "hosts": {"localhost": {"state": "failed"}}}'])
def test_a_file_that_somebody_removed_or_emptied_meanwhile_is_written_anew(run, text):
    if text is not None:
        run.path.write_text(text)
    told = run("report_host", {}, __berth_report_part={"part": "hosts", "names": ["localhost"]})[1]
    assert told["finished"] and told["hosts"]["localhost"]["state"] == "ok"


@pytest.mark.parametrize("file", [5, ["out.json"], "out\x1b.json"])
def test_the_result_of_a_task_is_not_lost_over_what_is_no_path(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    action = SimpleNamespace(
        _task=SimpleNamespace(check_mode=False, run_once=False), _templar=SimpleNamespace(template=lambda value: value)
    )
    given = {"berth_report": file, host_ends.PART: {"part": "hosts", "names": ["h1"]}, "inventory_hostname": "h1"}
    host_ends.note(action, given, {"changed": True})
    assert list(tmp_path.iterdir()) == []


def test_hosts_that_end_at_the_same_moment_are_all_in_the_file(tmp_path):
    path = tmp_path / "out.json"
    names = ["h%d" % number for number in range(12)]
    action = SimpleNamespace(
        _task=SimpleNamespace(check_mode=False, run_once=False), _templar=SimpleNamespace(template=lambda value: value)
    )

    def end(name):
        given = {
            "berth_report": str(path),
            host_ends.PART: {"part": "hosts", "names": names},
            "inventory_hostname": name,
        }
        host_ends.note(action, given, {"changed": True})
        host_ends.end(action, given, {})

    workers = [multiprocessing.get_context("fork").Process(target=end, args=(name,)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    told = json.loads(path.read_text())
    assert told["finished"] and told["hosts"] == dict.fromkeys(names, {"changed": True, "state": "ok"})


@pytest.mark.parametrize("file", [["out.json"], {"out.json": 1}, 5, "out\n.json", "out\x1b.json", "a" * 5000])
def test_what_is_no_path_is_refused_and_no_file_of_such_a_name_is_written(run, tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    result, _told = run("read_hosts", {"instances": ["a"], "must_answer": False}, file=file)
    assert (result["error_code"], result["error"]["field"]) == ("InvalidInput", "berth_report")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused_before_a_host_is_asked(run, tmp_path, monkeypatch):
    monkeypatch.setattr(delegates, "run_on", lambda *args: pytest.fail("a host was asked"))
    result, _told = run("read_hosts", {"instances": ["a"]}, file=tmp_path / "no" / "out.json")
    assert result["error_code"] == "InvalidInput" and "berth_report" in result["msg"]


@pytest.mark.parametrize(
    "callback, to_stderr",
    [("default", False), ("ansible.posix.json", True), ("json", True), ("ansible.posix.jsonl", True), ("awx_display", False),
     ("community.general.yaml", False)],
)  # fmt: skip
def test_with_a_callback_that_writes_json_stdout_is_left_to_it(callback, to_stderr, monkeypatch, capsys):
    monkeypatch.setattr(screen.C, "DEFAULT_STDOUT_CALLBACK", callback)
    screen.say("a table")
    out, err = capsys.readouterr()
    assert ("a table" in out, "a table" in err) == (not to_stderr, to_stderr)


# ---- a file that cannot be written any more when the run ends


def is_full(monkeypatch, path):
    def write_file(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(documents, "write_file", write_file)


def is_a_directory(monkeypatch, path):
    path.unlink()
    path.mkdir()


def is_a_link(monkeypatch, path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    "change, why",
    [(is_full, "No space left on device"), (is_a_directory, "this is a directory"), (is_a_link, "this is a link")],
)
def test_a_run_whose_result_cannot_be_written_says_that_it_has_ended_and_the_file_says_nothing_else(
    run, monkeypatch, change, why
):
    """A refusal would say that nothing was done."""
    run("read_hosts", {"instances": ["a"], "must_answer": False})
    change(monkeypatch, run.path)
    result, told = run("placement", {"instances": ["a"]})
    assert told is None or not told["finished"]
    assert result["error_code"] == "ReportNotWritten" and why in result["msg"]
    assert not list(run.path.parent.glob("*.tmp"))


def test_of_two_runs_that_share_a_file_neither_says_finished_for_hosts_that_have_not_ended(run, monkeypatch):
    part = {"part": "hosts", "names": ["localhost", "h2"]}
    for number in ("r-1", "r-2"):
        monkeypatch.setattr(acting, "RUN", number)
        told = run("report_host", {}, __berth_report_part=part)[1]
    assert (told["run"], told["finished"], set(told["hosts"])) == ("r-2", False, {"localhost"})
