#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out a Containerfile of ansible-builder without a container engine, in directories and by chroot. Needs root.

tests/awx/build_image.py CONTEXT BASE WORK [NAME=VALUE ...] -- COMMAND

CONTEXT has the Containerfile, BASE is the root that stands for the image of its first FROM, each stage becomes WORK/STAGE, and
NAME=VALUE is an argument of the build. COMMAND is then run in the last stage as an engine would: by its entry point, as its user.
It knows what ansible-builder writes, and refuses anything else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

# A namespace of its own ends with the command; Ansible needs /dev/shm.
INSIDE = 'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$@"'
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(words: list[str]) -> None:
    end = words.index("--")
    context, base, work = map(Path, words[:3])
    build = Build(context, base, work, dict(word.split("=", 1) for word in words[3:end]))
    build.run()
    build.start(words[end + 1 :])


def inside(root: Path, words: list[str], environment: dict[str, str], user: str = "0", cwd: str = "/") -> None:
    """Runs the command in the root, with nothing of this machine's environment but how pip reaches its index."""
    pip = {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_CERT") if name in os.environ}
    change = ["--userspec=%s:0" % user, str(root), "/usr/bin/env", "--chdir=" + cwd, *words]
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, str(root), *change]
    done = subprocess.run(
        command, env={"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **pip, **environment}, check=False
    )
    if done.returncode:
        raise SystemExit("build: %s ended with %d" % (" ".join(words), done.returncode))


class Build:
    def __init__(self, context: Path, base: Path, work: Path, given: dict[str, str]) -> None:
        self.context, self.base, self.work, self.given = context, base, work, given
        self.arguments: dict[str, str] = {}  # those before the first FROM
        self.stages: dict[str, dict] = {}
        self.stage: dict = {}

    def run(self) -> None:
        text = (self.context / "Containerfile").read_text("utf-8")
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                word, _space, rest = line.partition(" ")
                getattr(self, "do_" + word.lower())(rest.strip())

    def start(self, command: list[str]) -> None:
        stage = self.stage
        inside(stage["root"], [*stage["entry_point"], *command], stage["environment"], stage["user"], stage["cwd"])

    def do_arg(self, rest: str) -> None:
        name, _is, default = rest.partition("=")
        if self.stage:
            self.stage["arguments"][name] = self.arguments.get(name, default.strip('"'))
        else:
            self.arguments[name] = self.given.get(name, default.strip('"'))

    def do_from(self, rest: str) -> None:
        source, _as, name = rest.split()
        before = self.stages.get(source, {"root": self.base, "environment": {}, "user": "0", "cwd": "/"})
        root = self.work / name
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", before["root"], root], check=True)
        self.stage = {**before, "root": root, "environment": dict(before["environment"]), "arguments": {}}
        self.stages[name] = self.stage

    def do_env(self, rest: str) -> None:
        name, value = rest.split("=", 1)
        self.stage["environment"][name] = value

    def do_user(self, rest: str) -> None:
        self.stage["user"] = {"root": "0"}.get(rest, rest)

    def do_workdir(self, rest: str) -> None:
        self.stage["cwd"] = rest
        self.path(rest).mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest: str) -> None:
        words = rest.split()
        root = self.stages[words.pop(0).partition("=")[2]]["root"] if words[0].startswith("--from=") else self.context
        source, target = root / words[0].lstrip("/"), self.path(words[1])
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)

    def do_run(self, rest: str) -> None:
        print("build: %s: %s" % (self.stage["root"].name, rest), flush=True)
        environment = {**self.stage["arguments"], **self.stage["environment"]}
        inside(self.stage["root"], ["/bin/sh", "-c", rest], environment, self.stage["user"], self.stage["cwd"])

    def do_entrypoint(self, rest: str) -> None:
        self.stage["entry_point"] = json.loads(rest)

    def do_label(self, rest: str) -> None:
        """Only an engine needs it, and the command that it starts by itself."""

    do_cmd = do_label

    def path(self, inner: str) -> Path:
        return self.stage["root"] / inner.lstrip("/")


if __name__ == "__main__":
    main(sys.argv[1:])
