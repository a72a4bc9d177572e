# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: what is in it, what is never done by what a host says, and what its files never replace."""

from __future__ import annotations

import html.parser
import json
import os
import stat
import sys
import uuid
from pathlib import Path

import pytest
from ansible.utils import color
from controller import Controller

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "replies"))
import good  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor, fleet_report  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid  # noqa: E402
from ansible_collections.berth.kvm.plugins.plugin_utils import report_page

ASKED = [1800000000.0, 1800000005.0]
VARIABLES = {**good.CATALOG, "berth_aggregates": {"rack": {"hosts": ["h1", "h2"], "availability_zone": "north"}}}
VOID = {"meta", "br", "link"}


class Page(html.parser.HTMLParser):
    """What a browser makes of it: tags with their attributes, the text of each table's rows, and whether all is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.rows, self.crossed = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data):
        if "tr" in self.open and self.rows[-1]:
            self.rows[-1][-1] = " ".join((self.rows[-1][-1] + " " + data).split())

    def row(self, first):
        return next(row for row in self.rows if row[0] == first)


class Case:
    """A fleet of h1 to h3, of which h1 and h2 share a move, and what is made of it. ``answers`` may be changed."""

    def __init__(self, folder, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        self.page = folder / "fleet.html"
        self.answers = {host: good.host_facts(host)[1] for host in good.HOSTS}
        self.variables = dict(VARIABLES)
        self.hosts = list(good.HOSTS)

    def controller(self):
        wished = {"at-rest-h1": {"berth_flavor": "small"}, "new": {"berth_flavor": "small"}}
        it = Controller({"kvm_hosts": self.hosts, "vms": list(wished)}, {"all": self.variables, **wished})
        it.register("localhost", __berth_facts={"answers": self.answers})
        return it

    def write(self, **args):
        return self.controller().run("write_report", {"asked": ASKED, "page": str(self.page), **args})

    def written(self):
        """(the page, the data)."""
        return Page(self.page.read_text("utf-8")), json.loads(self.page.with_suffix(".json").read_text("utf-8"))

    def silence(self, host, reason="UNREACHABLE: no route"):
        self.answers[host] = {"reason": reason}

    def document(self, host):
        return self.answers[host]["ansible_facts"]["berth_host"]


@pytest.fixture
def case(tmp_path, monkeypatch):
    return Case(tmp_path, monkeypatch)


def test_the_data_have_hosts_instances_groups_confirms_and_findings(case):
    assert not case.write().get("failed")
    _page, data = case.written()
    assert data["about"] == "berth.kvm.report" and data["schema"] == 1 and data["at"] == "2027-01-15T08:00:05Z"
    assert {host["name"]: (host["state"], host["zone"]) for host in data["hosts"]} == {
        "h1": ("up", "north"), "h2": ("up", "north"), "h3": ("up", ""),
    }  # fmt: skip
    assert data["hosts"][0]["resources"]["MEMORY_MB"] == {"used": 0, "limit": 3584, "percent": 0}
    rows = {row["name"]: row for row in data["instances"]}
    assert (rows["resized"]["host"], rows["resized"]["state"], rows["resized"]["flavor"]) == ("h2", "resized", "big")
    assert "also on h1 (OUT)" in rows["resized"]["why"]
    assert (rows["at-rest-h3"]["address"], rows["new"]["state"]) == ("192.0.2.11", "absent")
    members = [(member["name"], member["host"]) for member in data["groups"][0]["members"]]
    assert members == [("at-rest-h1", "h1"), ("at-rest-h2", "h2"), ("at-rest-h3", "h3"), ("resized", "h2")]
    assert data["confirms"] == [
        {
            "name": "resized", "host": "h2", "type": "resize", "source": "h1", "destination": "h2", "was": "small",
            "flavor": "big", "confirm_in": 300, "confirm_at": "2027-01-15T08:05:05Z",
        }
    ]  # fmt: skip
    assert {found["code"] for found in data["findings"]} >= {"PoolMissing", "NotConfirmed"}
    assert data["counts"]["error"] == 3


def test_an_instance_in_error_is_one_of_the_errors_and_none_that_the_doctor_names_counts_twice(case, capsys):
    """L3"""
    case.write()
    before = case.written()[1]
    assert before["errors"] == before["counts"]["error"] == 3
    failure = {"name": "broken", "project_id": "default", "code": "ImageInvalid", "message": "no such image"}
    case.document("h1")["failed_instances"] = [{**failure, "uuid": instance_uuid("default", "broken")}]
    case.write()
    _page, data = case.written()
    assert (data["errors"], data["counts"]["error"]) == (4, 3) and "errors: 4, " in capsys.readouterr().out
    card = case.page.read_text("utf-8").partition(">Errors</span>")[2]
    assert card.split("</strong>")[0].strip() == "<strong>4"
    named = [{"name": "resized", "state": "error"}, {"name": "broken", "state": "error"}]
    assert fleet_report.errors([doctor.Finding("X", doctor.ERROR, "h1", "said", "", "resized")], named) == 2


def test_each_instance_has_whether_it_would_move_live_or_why_not(case):
    locked = next(each for each in case.document("h2")["instances"] if each["name"] == "at-rest-h2")
    locked["locked"] = "ann: mine"
    case.write()
    page, data = case.written()
    live = {row["name"]: row["live"] for row in data["instances"]}
    assert live["at-rest-h1"].startswith("no: its guest runs with devices of its host") and live["new"] == ""
    assert live["at-rest-h2"].startswith("no: InstanceIsLocked") and "confirm_resize" in live["resized"]
    assert live["at-rest-h2"] in page.row("at-rest-h2")


@pytest.mark.parametrize("guest, said", [("running", "yes"), ("shutdown", "no: it is off, and moves cold")])
def test_a_guest_without_devices_moves_live_if_it_runs(case, guest, said):
    (told,) = [each for each in case.document("h1")["instances"] if each["name"] == "at-rest-h1"]
    told.update(power_state=guest, vm_state="active" if guest == "running" else "stopped")
    (view,) = [each for each in case.answers["h1"]["moves"] if each["name"] == "at-rest-h1"]
    view.update(resources={}, running=guest == "running", vm_state=told["vm_state"])
    case.write()
    assert {row["name"]: row["live"] for row in case.written()[1]["instances"]}["at-rest-h1"] == said


def test_each_host_has_how_many_more_of_each_flavor_fit_and_what_is_really_in_use(case):
    case.document("h1").update(
        metrics=[{"name": "load.1", "value": 1.25}], memory_mb=512 + case.document("h1")["reserved_host_memory_mb"]
    )
    case.document("h2").update(vcpus=64, cpu_allocation_ratio=1.0, local_gb=1000)
    pools = case.document("h2")["pools"]
    pools[sorted(pools)[0]].update(capacity_gb=100, free_gb=60)
    case.silence("h3")
    case.write()
    page, data = case.written()
    hosts = {host["name"]: host for host in data["hosts"]}
    assert hosts["h1"]["fits"]["small"] < 10 == hosts["h2"]["fits"]["small"] and hosts["h3"]["fits"] == {}
    assert (hosts["h1"]["load"], hosts["h3"]["load"]) == (1.25, None)
    assert hosts["h2"]["pools"][sorted(pools)[0]] == {"used_gb": 40, "capacity_gb": 100} and hosts["h3"]["pools"] == {}
    assert "load 1.25" in page.row("h1")[9] and "40 of 100 GiB" in page.row("h2")[9]
    assert "10 or more small" in page.row("h2")[8] and page.row("h3")[8:] == ["-", "-"]


def test_a_fault_of_the_inventory_leaves_unknown_what_moves_live_and_nothing_else(case):
    case.variables["berth_flavors"] = {"small": {"vcpus": "many"}}
    assert not case.write().get("failed")
    page, data = case.written()
    assert any(said.startswith("Whether instances move live, and what fits, is not known.") for said in data["said"])
    assert {row["live"] for row in data["instances"]} == {""} and page.row("at-rest-h1")[2] == "h1"


def test_each_fleet_of_a_user_has_a_page_of_its_own(case, tmp_path):
    """E6: also where their hosts have the same names."""
    pages = []
    for uuids in (good.UUIDS, {host: str(uuid.uuid4()) for host in good.HOSTS}) * 2:
        for host in good.HOSTS:
            case.document(host)["uuid"] = uuids[host]
        pages.append(Path(case.write(page=None)["page"]).name)
    assert pages == ["fleet.html", "fleet-2.html", "fleet.html", "fleet-2.html"]
    (tmp_path / "state" / "berth" / "report" / "fleet.json").write_text('["berth.kvm.report"]')
    assert Path(case.write(page=None)["page"]).name == "fleet.html", "what says not whose it is is replaced, as before"


def test_the_page_says_the_same(case):
    case.write()
    page, _data = case.written()
    assert page.row("h1")[1:4] == ["up 2 failed builds, the last 35 min ago", "north", "0 %: 0 of 8 shared CPUs"]
    assert page.row("resized")[1:3] == ["resized", "h2"]
    assert ["resized", "resize", "h1 to h2", "small to big", "2027-01-15T08:05:05Z"] in page.rows
    assert page.row("web")[2] == "anti-affinity"


def test_hosts_that_do_not_answer_and_hosts_that_are_not_prepared_are_shown_and_stop_nothing(case):
    case.silence("h3")
    case.document("h1")["prepared"] = False
    result = case.write()
    page, data = case.written()
    assert not result.get("failed")
    states = {host["name"]: (host["state"], host["reason"]) for host in data["hosts"]}
    assert states["h3"] == ("no answer", "UNREACHABLE: no route")
    assert states["h1"][0] == "not prepared" and "berth.kvm.prepare_hosts --limit h1" in states["h1"][1]
    assert page.row("h3")[1] == "no answer UNREACHABLE: no route"
    rows = {row["name"]: (row["state"], row["host"]) for row in data["instances"]}
    assert rows["new"][0] == "unknown", "a host is silent: nobody says that it is nowhere"
    assert ("unknown", "h3") in rows.values(), "other hosts remember what the silent one has"


def test_a_host_that_is_there_and_cannot_be_used_is_not_called_silent(case):
    case.silence("h3", "LibvirtTimeout: it hangs")
    case.write()
    assert case.written()[1]["hosts"][-1]["state"] == "left out"


def test_where_no_host_answers_the_report_says_so_and_the_run_fails(case):
    for host in good.HOSTS:
        case.silence(host)
    result = case.write()
    assert result["failed"] and result["error_code"] == "NoHostAnswered" and str(case.page) in result["msg"]
    assert {host["state"] for host in case.written()[1]["hosts"]} == {"no answer"}


def test_a_broken_policy_of_a_group_is_shown(case):
    case.variables["berth_server_groups"] = {"web": {"policy": "affinity"}, "empty": {"policy": "anti-affinity"}}
    case.write()
    page, data = case.written()
    assert [group["broken"] for group in data["groups"]] == ["", "on h1, h2, h3, not on one host"]
    assert page.row("web")[-1] == "broken: on h1, h2, h3, not on one host" and page.row("empty")[3:] == ["-", "kept"]


def test_a_policy_is_not_called_kept_where_a_host_did_not_say_what_it_holds(case):
    case.write()
    assert case.written()[0].row("web")[-1] == "kept"
    case.silence("h3")
    case.write()
    assert case.written()[0].row("web")[-1] == "kept on the hosts that answered"


def test_a_fault_of_the_inventory_is_said_and_the_rest_is_there(case):
    case.variables["berth_server_groups"] = {"web": {"policy": "afinity"}}
    assert not case.write().get("failed")
    page, data = case.written()
    assert "berth_server_groups.web.policy" in data["said"][0] and page.row("h1")


def test_check_mode_writes_nothing(case, capsys):
    controller = case.controller()
    task = {"asked": ASKED, "page": str(case.page)}
    result = controller.run(
        "write_report", task, {**controller.task_vars(), "ansible_check_mode": True}, check_mode=True
    )
    assert not result.get("failed") and os.listdir(case.page.parent) == []
    assert "Check mode wrote no report" in capsys.readouterr().out


def test_where_the_report_is_comes_last_as_an_address_for_a_browser(case, capsys):
    case.write()
    assert capsys.readouterr().out.split()[-2:] == [case.page.as_uri(), str(case.page.with_suffix(".json"))]


def test_the_run_ends_in_the_table_of_the_instances(case, capsys):
    case.silence("h3")
    case.write()
    off = next(each for each in case.document("h1")["instances"] if each["name"] == "at-rest-h1")
    off["power_state"] = "shutdown"
    case.write()
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any("resized h2 big -" in line for line in said), said
    assert "at-rest-h1 off h1 small -" in said and "at-rest-h2 active h2 small -" in said
    assert "waits for confirm_resize or revert_resize; also on h1 (OUT)" in " ".join(said)
    assert "host h3 left out: UNREACHABLE: no route" in said


def test_where_the_terminal_has_colours_the_table_of_a_report_shows_nothing_as_changed(case, capsys, monkeypatch):
    monkeypatch.setattr(color, "ANSIBLE_COLOR", True)
    case.write()
    said = capsys.readouterr().out
    assert "\x1b[0;32mresized " in said and "\x1b[0;33m" not in said


def test_of_many_instances_the_screen_shows_some_and_says_so_and_the_page_has_all(case, capsys):
    first = case.document("h3")["instances"][0]
    named = [(good.instance_uuid("default", "vm%d" % at), "vm%d" % at) for at in range(300)]
    held = [{**first, "uuid": uuid, "name": name} for uuid, name in named]
    case.document("h3").update(instances=held, num_instances=len(held))
    case.write()
    page, data = case.written()
    said = capsys.readouterr().out
    assert "The table has 40 of %d instances." % len(data["instances"]) in said and len(said.splitlines()) < 60
    assert page.row("vm299") and len(data["instances"]) > 300


# ---- what a host says is shown and never done

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "' autofocus onfocus='alert(1)",
    "javascript:alert(1)",
    "<!--", "-->", "]]>", "&lt;b&gt;", "</table></main>",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202etxt.exe\u2066\u200f",
    "a\r\nb\x00c\u2028d",
    "{{ lookup('pipe', 'id') }}{% raw %}",
    "x" * 100000,
    "\ud800",
    "\N{HEBREW LETTER ALEF}\N{ARABIC LETTER ALEF} 12",
]  # fmt: skip


def texts(value, path=()):
    """Where each text of plain data is."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from texts(part, (*path, key))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from texts(part, (*path, at))
    elif isinstance(value, str):
        yield path


def put(value, path, text):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


def harmless(case):
    text, (page, data) = case.page.read_text("utf-8"), case.written()
    kinds = {tag for tag, _attributes in page.tags}
    assert page.open == [] and page.crossed == [], "a text closed or opened a tag"
    assert [tag for tag, _attributes in page.tags].count("script") == 1 and "img" not in kinds
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert not attributes.get("href", "#").startswith(("javascript", "http")), attributes
        assert set(attributes) & {"src", "srcset", "action", "style"} == set(), attributes
    assert all(char.isprintable() or char == "\n" for char in text)
    longest = max(len(part) for row in page.rows for part in row)
    assert longest <= 5000 and len(text) < 200000
    return data


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text[:16]) for text in HOSTILE])
@pytest.mark.parametrize("checked", [True, False], ids=["as its check lets it pass", "past every check"])
def test_no_text_of_a_host_is_more_than_text(case, text, checked, monkeypatch):
    """Each text field of all that a host sends, all at once; the page is safe even where the checks at the door fail."""
    if not checked:
        monkeypatch.setattr(host_document, "check", lambda document, *_rest: document)
    before = case.answers["h1"]
    for path in list(texts(before)):
        if path[-1] not in ("role", "phase", "severity", "uuid", "type", "code"):
            put(before, path, text)
    assert not case.write().get("failed")
    data = harmless(case)
    assert len(data["hosts"]) == 3


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text[:16]) for text in HOSTILE])
def test_no_reason_and_no_name_is_more_than_text(case, text):
    case.silence("h3", text)
    case.answers["h2"]["checkup"]["findings"][0].update(said=text, code=text)
    case.answers["h2"]["addresses"] = {
        uuid: {"address": text, "source": "arp"} for uuid in case.answers["h2"]["addresses"]
    }
    case.document("h2")["instances"][0].update(name=text, locked=text, group=text, task_state=text, vm_state=text)
    case.document("h2")["service"] = {"disabled": True, "disabled_reason": text, "up": True}
    case.write()
    harmless(case)


def test_a_name_from_right_to_left_turns_nothing_around_it(case):
    name = "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET} 12"
    case.document("h3")["instances"][0]["flavor"]["name"] = name
    case.write()
    text = case.page.read_text("utf-8")
    assert 'dir="auto">%s<' % name in text and "unicode-bidi: isolate" in text


def test_of_a_thousand_cells_of_a_host_the_page_shows_some_and_the_data_have_all(case):
    document = case.document("h3")
    cell = document["numa_topology"]["cells"][0]
    document["numa_topology"]["cells"] = [{**cell, "id": at} for at in range(1024)]
    case.write()
    page, data = case.written()
    assert "and 1008 more" in page.row("h3")[6] and len(data["hosts"][2]["cells"]) == 1024


# ---- the page itself


def test_the_page_needs_nothing_else_and_may_run_nothing_else(case):
    case.write()
    text, (page, _data) = case.page.read_text("utf-8"), case.written()
    policy = next(given["content"] for tag, given in page.tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and policy.count("sha256-") == 2
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://www.gnu.org" in text
    assert "@import" not in text and "url(" not in text and "prefers-color-scheme: dark" in text


def test_the_page_can_be_read_aloud_and_used_by_keyboard(case):
    case.write()
    page, _data = case.written()
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("h1") == 1 and tags.count("caption") == tags.count("table") == 5
    assert all(given.get("scope") in ("row", "col") for tag, given in page.tags if tag == "th")
    assert dict(page.tags[0][1])["lang"] == "en"
    ids = [given["id"] for _tag, given in page.tags if "id" in given]
    assert len(ids) == len(set(ids))
    links = {given["href"][1:] for tag, given in page.tags if tag == "a"}
    named = {given["aria-labelledby"] for tag, given in page.tags if "aria-labelledby" in given}
    assert links | named <= set(ids)
    roles = {"table": "table", "tr": "row", "td": "cell"}  # stay where a narrow window shows the table as cards
    assert all(given["role"] == roles[tag] for tag, given in page.tags if tag in roles)


# ---- the files


def test_both_files_are_for_their_owner_and_again_replaces_them(case):
    assert case.write()["page"] == str(case.page)
    case.write()
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in case.page.parent.iterdir()}
    assert found == {"fleet.html": 0o600, "fleet.json": 0o600}


def test_without_a_path_it_is_in_the_state_directory_which_is_made(case, tmp_path):
    result = case.controller().run("write_report", {"asked": ASKED})
    assert result["page"] == str(tmp_path / "state/berth/report/fleet.html")
    assert stat.S_IMODE((tmp_path / "state/berth/report").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["fleet.html", "fleet.json"])
@pytest.mark.parametrize("kind", ["link", "dangling", "foreign", "directory", "pipe"])
def test_what_is_no_report_is_neither_replaced_nor_followed(case, name, kind, tmp_path):
    (tmp_path / "there").mkdir()
    way, target = case.page.with_name(name), tmp_path / "there" / "index.html"
    target.write_text("mine")
    make = {
        "link": lambda: way.symlink_to(target),
        "dangling": lambda: way.symlink_to(tmp_path / "there" / "nothing"),
        "foreign": lambda: way.write_text("mine"),
        "directory": way.mkdir,
        "pipe": lambda: os.mkfifo(way),
    }
    make[kind]()
    before = sorted(path.name for path in tmp_path.iterdir())
    result = case.write()
    assert result["error_code"] == "InvalidInput" and name in result["msg"]
    assert target.read_text() == "mine" and os.listdir(tmp_path / "there") == ["index.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("path", ["/etc/passwd", "fleet", "x/.html", "no/such/directory/fleet.html"])
def test_a_path_that_is_none_for_a_page_is_refused(case, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = case.write(page=path)
    assert result["error_code"] == "InvalidInput" and "berth_report_page" in result["msg"]


def test_a_page_and_a_file_of_metrics_that_are_none_are_told_together(case):
    result = case.write(page="/etc/passwd", metrics="/x.txt")
    assert "berth_report_page" in result["msg"] and "berth_metrics" in result["msg"]


def test_where_the_disk_is_full_the_earlier_report_stays(case, monkeypatch):
    case.write()
    before = case.page.read_text()

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_page, "write_private", full)
    assert "No space left on device" in case.write()["msg"] and case.page.read_text() == before
