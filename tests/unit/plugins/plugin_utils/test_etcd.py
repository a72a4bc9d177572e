# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What procedures rely on in an engine of the registry, the same for etcd and for the engine in memory of the histories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import etcd_process
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "protocol"))
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (  # noqa: E402
    RegistryRefused,
    RegistryUnknown,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import (  # noqa: E402
    Compare,
    Found,
    Scan,
    Transact,
    Write,
)
from ansible_collections.berth.kvm.plugins.plugin_utils import etcd  # noqa: E402


@pytest.fixture(scope="session")
def member(tmp_path_factory):
    if not etcd_process.IS_HERE:
        pytest.skip("there is no etcd on this machine")
    with etcd_process.running(tmp_path_factory.mktemp("etcd")) as members:
        yield members


@pytest.fixture(params=["memory", "etcd"])
def engine(request):
    if request.param == "memory":
        return MemoryEngine()
    found = etcd.Etcd(request.getfixturevalue("member").members)
    keys = tuple(found.scan(Scan("/"))["found"])
    found.transact(Transact(writes=tuple(Write(key, None) for key in keys)))
    return found


def put(engine, key, value=b"v", *compare):
    return engine.transact(Transact(compare, (Write(key, value),), (key,)))


def test_a_write_is_read_in_its_own_transaction_with_its_revision(engine):
    done = put(engine, "/a", b"\x00\xff")
    assert done["succeeded"] and done["found"] == {"/a": Found(b"\x00\xff", done["revision"])}
    again = put(engine, "/a", b"")
    assert again["revision"] == done["revision"] + 1 and again["found"]["/a"].value == b""


def test_all_is_written_at_one_revision_or_nothing(engine):
    first = put(engine, "/a")
    both = Transact(
        (Compare("/a", first["revision"]), Compare("/b")), (Write("/a", b"1"), Write("/b", b"2")), ("/a", "/b")
    )
    done = engine.transact(both)
    assert done["succeeded"] and {found.revision for found in done["found"].values()} == {done["revision"]}
    late = engine.transact(both._replace(writes=(Write("/a", b"3"), Write("/c", b"3")), reads=("/a", "/c")))
    assert (late["succeeded"], late["revision"]) == (False, done["revision"])
    assert late["found"] == {"/a": Found(b"1", done["revision"])}


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        (Compare("/none"), True),
        (Compare("/none", 1), False),
        (Compare("/none", value=b""), False),
        (Compare("/there"), False),
        (Compare("/there", value=b"v"), True),
        (Compare("/there", value=b"w"), False),
        (Compare("/there", 10**9), False),
    ],
)
def test_what_is_compared(engine, compare, holds):
    put(engine, "/there")
    assert engine.transact(Transact((compare,)))["succeeded"] is holds


def test_a_key_that_was_removed_is_not_there_and_its_old_revision_never_comes_back(engine):
    old = put(engine, "/a")["revision"]
    gone = engine.transact(Transact((), (Write("/a", None),), ("/a",)))
    assert gone["succeeded"] and gone["found"] == {} and gone["revision"] == old + 1
    assert put(engine, "/a", b"v", Compare("/a"))["succeeded"]
    assert not put(engine, "/a", b"w", Compare("/a", old))["succeeded"]


def test_to_remove_what_is_not_there_and_to_read_take_no_revision(engine):
    now = put(engine, "/a")["revision"]
    assert engine.transact(Transact(writes=(Write("/b", None),)))["revision"] == now
    assert engine.transact(Transact(reads=("/a", "/b")))["revision"] == now


def test_a_scan_has_all_keys_of_a_prefix_of_one_revision(engine, monkeypatch):
    monkeypatch.setattr(etcd, "PAGE", 3)
    for number in range(8):
        put(engine, "/a/%d" % number, b"%d" % number)
    now = put(engine, "/b")["revision"]
    found = engine.scan(Scan("/a/"))
    assert found["revision"] == now and [each.value for each in found["found"].values()] == [
        b"%d" % number for number in range(8)
    ]
    assert engine.scan(Scan("/c"))["found"] == {} and sorted(engine.scan(Scan("/"))["found"])[-1] == "/b"


def test_a_scan_since_has_what_changed_after_that_revision(engine):
    put(engine, "/a/1")
    since = put(engine, "/a/2")["revision"]
    put(engine, "/a/3")
    put(engine, "/a/1", b"new")
    assert sorted(engine.scan(Scan("/a/", since))["found"]) == ["/a/1", "/a/3"]


# --- what goes wrong; the engine in memory is asked for it, the members of etcd are killed or hang


@pytest.fixture
def three(tmp_path, monkeypatch):
    if not etcd_process.IS_HERE:
        pytest.skip("there is no etcd on this machine")
    monkeypatch.setattr(etcd, "ANSWER", 1.5)
    with etcd_process.running(tmp_path, 3) as members:
        yield members


@pytest.mark.follows("run_again_later")
def test_without_a_majority_nothing_is_known_and_afterwards_all_is_there(three):
    engine = etcd.Etcd(three.members)
    put(engine, "/a")
    three.kill(0, 1)
    for step in (Transact(reads=("/a",)), Transact(writes=(Write("/b", b""),))):
        with pytest.raises(RegistryUnknown):
            engine.transact(step)
    with pytest.raises(RegistryUnknown, match="no majority"):
        engine.scan(Scan("/"))
    three.start(0)
    three.wait(engine)
    assert engine.transact(Transact(reads=("/a",)))["found"]["/a"].value == b"v"


def test_a_member_that_is_away_is_passed_over_and_so_is_one_that_hangs_where_nothing_is_written(three):
    three.kill(0)
    three.wait(engine := etcd.Etcd(three.members))
    assert put(engine, "/a")["succeeded"]
    three.start(0)
    three.wait(etcd.Etcd(three.members[:1]))
    three.hang(0)
    three.wait(engine := etcd.Etcd(three.members))
    assert engine.transact(Transact(reads=("/a",)))["found"]["/a"].value == b"v"
    three.unhang(0)


def test_a_write_whose_answer_is_lost_is_not_sent_to_another_member(three):
    engine = etcd.Etcd(three.members)
    put(engine, "/a")
    three.hang(0)
    with pytest.raises(RegistryUnknown, match="may be there"):
        put(engine, "/a", b"lost")
    assert engine.transact(Transact(reads=("/a",)))["found"]["/a"].value == b"v"
    three.unhang(0)


@pytest.mark.follows("see_doctor")
def test_a_registry_without_space_refuses_what_is_written_and_tells_what_is_there(tmp_path):
    with etcd_process.running(tmp_path, 1, "--quota-backend-bytes=200000") as members:
        engine = etcd.Etcd(members.members)
        with pytest.raises(RegistryRefused, match="database space exceeded"):
            for _each in range(20):
                put(engine, "/a", b"x" * 100000)
        assert engine.transact(Transact(reads=("/a",)))["found"]
        members.kill()
        members.more = ("--quota-backend-bytes=%d" % 2**30,)
        members.start()
        members.wait(engine)
        subprocess.run(
            ["etcdctl", "--endpoints=http://%s" % str(members.members[0]), "alarm", "disarm"], check=True, timeout=20
        )
        assert put(engine, "/a")["succeeded"]


def test_the_engine_in_memory_loses_answers_and_is_away_as_it_is_told():
    engine = MemoryEngine()
    engine.lose(True, False)
    for key in ("/done", "/never"):
        with pytest.raises(RegistryUnknown):
            put(engine, key)
    assert sorted(engine.scan(Scan("/"))["found"]) == ["/done"]
    engine.away = True
    for step, ask in ((Transact(), engine.transact), (Scan("/"), engine.scan)):
        with pytest.raises(RegistryUnknown):
            ask(step)


def test_the_engine_in_memory_comes_back_from_a_backup_with_its_revisions():
    engine = MemoryEngine()
    put(engine, "/a")
    backup = engine.backup()
    later = put(engine, "/b")["revision"]
    engine.restore(backup)
    assert sorted(engine.scan(Scan("/"))["found"]) == ["/a"] and put(engine, "/c")["revision"] == later


@pytest.mark.parametrize("member", [etcd.Member("kvm1..lab", 2379), etcd.Member("127.0.0.1", 99999)])
def test_a_member_that_cannot_be_reached_by_its_name_or_port_is_one_that_does_not_answer(member):
    with pytest.raises(RegistryUnknown, match="No member of the registry answers"):
        etcd.Etcd([member]).transact(Transact(reads=("/berth/meta",)))


def test_a_member_that_is_busy_is_asked_again_within_a_limit(monkeypatch):
    """Under load it answers late. Without a limit a run would wait for one that hangs."""
    asked, busy = [], [True, True, False]

    def answer(_engine, path, _body):
        asked.append(path)
        if busy[len(asked) - 1]:
            raise etcd.Lost("timed out")
        return {"header": {"revision": "7"}}

    monkeypatch.setattr(etcd.Etcd, "_authenticated", answer)
    assert etcd.Etcd([etcd.Member("kvm1", 2379)]).scan(Scan("/"))["revision"] == 7 and len(asked) == etcd.ROUNDS
    busy += [True] * etcd.ROUNDS
    with pytest.raises(RegistryUnknown, match="timed out"):
        etcd.Etcd([etcd.Member("kvm1", 2379)]).scan(Scan("/"))
    assert len(asked) == 2 * etcd.ROUNDS
