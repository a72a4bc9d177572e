#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the site below .cache/docsite/html: every page of docs/ with its pictures, the pages beside the README, and a reference
of all plugins.

docs/docsite/build.py              builds all of it
docs/docsite/build.py --pages      without the reference of the plugins, which takes most of the time
docs/docsite/build.py --to DIR     below another directory
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pictures

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "lab/README.md", "roles/*/README.md")
SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
LISTED = re.compile(r"\]\(([\w/.-]+\.md)")
TREE = "```{toctree}\n:hidden:\n:caption: %s\n:maxdepth: 1\n\n%s\n```"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--to", type=Path, default=ROOT / ".cache" / "docsite")
    arguments = parser.parse_args()
    source, html = arguments.to / "source", arguments.to / "html"
    shutil.rmtree(arguments.to, ignore_errors=True)
    pages = copy_pages(source)
    show_pictures(source, pages, pictures.make(source / "docs" / "pictures", arguments.to / "pictures"))
    reference = [] if arguments.pages else write_reference(source)
    (source / "index.md").write_text(index(pages, reference), "utf-8")
    command = ["sphinx-build", "-q", "-W", "--keep-going", "-j", "2", "-b", "html", "-c", str(ROOT / "docs/docsite")]
    done = subprocess.run([*command, str(source), str(html)], check=False)
    if done.returncode == 0:
        print("docs: %s" % (html / "index.html"))
    return done.returncode


def copy_pages(source: Path) -> list[str]:
    """At the same paths, so that the links between them hold; what they link to beside pages comes along."""
    pages = sorted({path for kind in PAGES for path in ROOT.glob(kind) if ".cache" not in path.parts})
    for path in pages:
        copy(path, source)
        for link in re.findall(r"\]\(([^)#:\s]+)", path.read_text("utf-8")):
            target = (path.parent / link).resolve()
            if target.is_file():
                copy(target, source)
    return [str(path.relative_to(ROOT)) for path in pages]


def show_pictures(source: Path, pages: list[str], made: dict[str, str]) -> None:
    for page in pages:
        path = source / page
        path.write_text(pictures.shown(path.read_text("utf-8"), Path(page), made), "utf-8")


def copy(path: Path, source: Path) -> None:
    target = source / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def write_reference(source: Path) -> list[str]:
    """The plugins' own documentation as pages, made by antsibull-docs from this checkout alone."""
    folder = source / "reference"
    folder.mkdir(parents=True)
    command = ["antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections")}
    subprocess.run([*command, "--dest-dir", str(folder), "berth.kvm"], check=True, env=environment)
    return ["reference/index"]


def index(pages: list[str], reference: list[str]) -> str:
    """docs/README.md one directory further up; a part of the sidebar for each of its sections, and one for the other pages."""
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    parts: dict[str, list[str]] = {}
    for caption, section in SECTION.findall(text):
        listed = ["docs/" + name for name in LISTED.findall(section)]
        parts[caption] = [page for page in dict.fromkeys(listed) if page in pages]
    first = {page for part in parts.values() for page in part}
    parts["Plugins, roles, project"] = reference + [page for page in pages if page not in first]
    trees = [TREE % (caption, "\n".join(part)) for caption, part in parts.items()]
    return "\n\n".join([re.sub(r"\]\((?!https?:)", "](docs/", text), *trees, ""])


if __name__ == "__main__":
    sys.exit(main())
