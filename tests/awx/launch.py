#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches a job template of examples/awx/controller.yml as AWX does: by ansible-runner, with the same variables.

They are what the template says, then the answers of a survey, all of them text, then the artifacts of an earlier job of the same
workflow. What the template does not say itself is marked !unsafe, so that nothing in it is taken for a template.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import yaml

AWX = Path(__file__).resolve().parents[2] / "examples" / "awx"


class Unsafe(yaml.SafeDumper):
    """As AWX's own SafeStringDumper: every text, also a name."""

    def represent_data(self, data):
        return self.represent_scalar("!unsafe", data) if isinstance(data, str) else super().represent_data(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="ansible-runner's directory")
    parser.add_argument("template")
    parser.add_argument("ident", help="of this job")
    parser.add_argument("--answers", type=json.loads, help="to the questions of the survey, beside its defaults")
    parser.add_argument("--survey", help="that of the workflow, if the template has none")
    parser.add_argument("--after", help="the job whose artifacts this one gets")
    parser.add_argument("--limit")
    parser.add_argument("--fails", action="store_true", help="the job has to fail")
    given = parser.parse_args()
    template = next(item for item in templates() if item["name"] == given.template)
    extra = template.get("extra", {})
    values = {**extra, **answers(given.survey or template.get("survey"), given.answers or {})}
    if given.after:
        values.update(artifacts(given.data, given.after))
    (given.data / "env" / "extravars").write_text(variables(values, extra), "utf-8")
    return launch(given, template["playbook"])


def templates() -> list[dict]:
    return yaml.safe_load((AWX / "controller.yml").read_text("utf-8"))[0]["vars"]["templates"]


def answers(survey: str | None, given: dict) -> dict[str, str]:
    if not survey:
        return {}
    spec = json.loads((AWX / (survey + ".json")).read_text("utf-8"))["spec"]
    return {
        name: str(value) for name, value in {**{item["variable"]: item["default"] for item in spec}, **given}.items()
    }


def artifacts(data: Path, ident: str) -> dict:
    """What the job set with set_stats, which AWX reads from its last event."""
    events = (
        json.loads(path.read_text("utf-8")) for path in (data / "artifacts" / ident / "job_events").glob("*.json")
    )
    return next(event["event_data"]["artifact_data"] for event in events if event["event"] == "playbook_on_stats")


def variables(values: dict, own: dict) -> str:
    """The file of the variables; ``own`` are those of the template itself."""
    kinds = {name: yaml.SafeDumper if own.get(name) == value else Unsafe for name, value in values.items()}
    return "".join(yaml.dump({name: value}, Dumper=kinds[name]) for name, value in values.items()) or "{}\n"


def launch(given: argparse.Namespace, playbook: str) -> int:
    command = ["ansible-runner", "run", given.data, "--playbook", playbook + ".yml", "--ident", given.ident, "--quiet"]
    began = time.monotonic()
    failed = subprocess.run([*command, *(["--limit", given.limit] if given.limit else [])], check=False).returncode != 0
    job = given.data / "artifacts" / given.ident
    status = (job / "status").read_text("utf-8")
    print("runner: %s (%s) %s in %d s" % (given.template, given.ident, status, time.monotonic() - began), flush=True)
    if failed != given.fails:
        print((job / "stdout").read_text("utf-8"), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
