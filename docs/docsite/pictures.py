# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's pictures: a create in a terminal, and the report in a browser, of the hosts that the unit tests simulate.

A page has a picture where it has the line <!-- picture: NAME: what it shows -->, which other viewers of Markdown do not show.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import terminal

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".cache" / "collections"), str(ROOT / "tests" / "unit" / "replies")]

import fake_fleet  # noqa: E402
import good  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid  # noqa: E402

PLACE = re.compile(r"^<!-- picture: ([\w-]+): (.*?) -->\n", re.MULTILINE)
# what the tests' instances are called here
NAMES = {"at-rest-h1": "web1", "at-rest-h2": "web2", "at-rest-h3": "db", "resized": "shop"}
SIZE = {
    "vcpus": 8, "memory_mb": 32768, "free_ram_mb": 32256, "local_gb": 400, "free_disk_gb": 400, "disk_available_least": 400,
    "numa_topology": None,
}  # fmt: skip
USED = {"h1": (9, 12288, 120), "h2": (21, 23552, 260), "h3": (2, 4096, 40)}  # vCPUs, MiB, GiB
WINDOW = "1280,1000"


def make(folder: Path, work: Path) -> dict[str, str]:
    """Writes the pictures into ``folder``; name -> file name of each, but those for which something lacks here."""
    folder.mkdir(parents=True)
    state = {"XDG_STATE_HOME": str(work / "state"), "LOGNAME": "ann", "COLUMNS": str(terminal.COLUMNS)}
    (folder / "create.svg").write_text(
        terminal.svg(of_create(work / "create", state), "ansible-playbook create"), "utf-8"
    )
    made = {"create": "create.svg"}
    page = work / "report.html"
    ask(work / "report", ["report", "-e", "berth_report_page=%s" % page], 0, state, after)
    if photograph(page, folder / "report.png", work):
        made["report"] = "report.png"
    return made


def ask(folder, words, rc, environment, replies) -> str:
    done = fake_fleet.play(folder, words, change=describe, more_environment=environment, replies=replies)
    if done["rc"] != rc:
        raise SystemExit("pictures: %s ended with %d:\n%s" % (words[0], done["rc"], done["said"]))
    return done["stdout"]


def describe(tree) -> None:
    """Two instances that fit, and one that fits nowhere."""
    variables, instances = tree["all"]["vars"], tree["all"]["children"]["instances"]
    variables["berth_flavors"]["huge"] = {"vcpus": 64, "memory_mb": 262144, "root_gb": 1}
    instances["hosts"] = {"web1": {}, "web2": {}, "analytics": {"berth_flavor": "huge"}}
    instances["vars"] = {"berth_image": "guest", "berth_flavor": "small", "berth_networks": [{"network": "lan"}]}


def of_create(work: Path, state) -> str:
    text = ask(work, ["create"], 2, {**state, "ANSIBLE_FORCE_COLOR": "1", "ANSIBLE_NOCOLOR": ""}, before)
    text = text.replace(str(ROOT / ".cache"), "~/.ansible")
    return "$ ansible-playbook -i fleet.yml berth.kvm.create\n" + text


def before(host: str) -> dict[str, dict]:
    """What the hosts reply before the create."""
    return with_document(fake_fleet.replies(host), SIZE)


def with_document(replies, changes) -> dict[str, dict]:
    replies["host_facts"]["ansible_facts"]["berth_host"].update(changes)
    return replies


def after(host: str) -> dict[str, dict]:
    """What they reply when the fleet has been in use for a while: they are fuller, and an instance was resized."""
    vcpus, memory, disk = USED[host]
    facts = good.host_facts(host)[1]
    facts.update(notes={}, checkup={"clock": time.time(), "findings": [], "notes": {}})
    for instance in facts["ansible_facts"]["berth_host"]["instances"]:
        del instance["domain_differs"]
    used = {"vcpus_used": vcpus, "memory_mb_used": memory, "local_gb_used": disk}
    text = json.dumps(with_document({**fake_fleet.replies(host), "host_facts": facts}, {**SIZE, **used}))
    for name, called in NAMES.items():
        text = text.replace(instance_uuid("default", name), instance_uuid("default", called))
        text = text.replace('"name": "%s"' % name, '"name": "%s"' % called)
    return json.loads(text)


def photograph(page: Path, picture: Path, work: Path) -> bool:
    """The page as Debian's chromium shows it, if it is installed."""
    chromium = shutil.which("chromium")
    if not chromium:
        print("docs: without the picture of the report: chromium is not installed")
        return False
    page.write_text(page.read_text("utf-8").replace("@" + socket.gethostname(), "@controller"), "utf-8")
    words = [
        chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=" + WINDOW,
        "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--user-data-dir=%s" % (work / "chromium"), "--screenshot=%s" % picture,
    ]  # fmt: skip
    subprocess.run(
        [*words, page.as_uri()], capture_output=True, timeout=120, check=True, env={**os.environ, "HOME": str(work)}
    )
    return True


def shown(text: str, page: Path, made: dict[str, str]) -> str:
    """``text`` of ``page`` with its pictures, which are in docs/pictures; a place whose picture was not made stays empty."""

    def picture(found: re.Match[str]) -> str:
        name, about = found.groups()
        up = os.path.relpath("docs/pictures", page.parent)
        return "![%s](%s/%s)\n" % (about, up, made[name]) if name in made else ""

    return PLACE.sub(picture, text)
