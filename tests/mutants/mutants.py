# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Break the code in known ways and see that the tests notice: each mutant of mutants.yml must be killed by an assertion.

python tests/mutants/mutants.py [--sample N] [NAME ...]    all of them, N spread over the list, or the named ones

The named tests run on a copy of the tree, first without any mutant: they have to pass. Then an assertion of each of them
has to fail, in one of its cases at least. A mutant that ends in an import error, an error of a fixture or any other
exception, or at the limit of time, was not killed. The last line is ``N passed, N failed``.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.yml")
LIMIT = 180  # s for the tests of one mutant
ALL_LIMIT = 900  # s for all tests without a mutant
JOBS = 2
ASSERTION = re.compile(r"AssertionError|assert |Failed: DID NOT (RAISE|WARN)")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One broken line: in ``file`` the text ``old``, which stands there once, becomes ``new``. ``tests``: file -> names."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: Dict[str, List[str]]

    def node_ids(self) -> List[str]:
        """The tests as pytest names them."""
        return ["%s::%s" % (path, test) for path, tests in self.tests.items() for test in tests]


def read_list():
    return [Mutant(**entry) for entry in yaml.safe_load(LIST.read_text("utf-8"))]


def misfits(mutants):
    """What is wrong with the list itself: a text that does not stand in its file just once, a test that is not there."""
    names = [mutant.name for mutant in mutants]
    found = ["%s: this name is there twice" % name for name in sorted(set(names)) if names.count(name) > 1]
    for mutant in mutants:
        times = (ROOT / mutant.file).read_text("utf-8").count(mutant.old)
        if times != 1:
            found.append("%s: the old text stands %d times in %s" % (mutant.name, times, mutant.file))
        for test in mutant.node_ids():
            path, function = test.split("::")
            if not (ROOT / path).exists() or "def %s(" % function.split("[")[0] not in (ROOT / path).read_text():
                found.append("%s: there is no test %s" % (mutant.name, test))
    return found


def copy_tree(folder):
    """The files of the checkout, as an installed collection would have them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return folder


def run_tests(tree, tests, limit=LIMIT):
    """(passed, [(function, what it says)]) of the named tests on this tree; an error, which is no failure, has function ""."""
    report = tree / ".mutant.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report), *tests]
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "ANSIBLE_COLLECTIONS_PATH": str(tree / ".cache/collections"),
    }
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return False, [("", "no end within %d s" % limit)]
    if not report.exists():
        return False, [("", done.stdout[-500:] + done.stderr[-500:])]
    cases = list(ElementTree.parse(report).iter("testcase"))
    said = [
        (case.get("name").split("[")[0] if part.tag == "failure" else "", part.get("message") or "")
        for case in cases
        for part in case
        if part.tag in ("failure", "error")
    ]
    return bool(cases) and done.returncode == 0, said


def verdict(tree, mutant):
    """None where the mutant was killed as it has to be, else what happened."""
    path = tree / mutant.file
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(mutant.old, mutant.new), "utf-8")
    try:
        passed, said = run_tests(tree, mutant.node_ids())
    finally:
        path.write_text(whole, "utf-8")
    if passed:
        return "survived"
    killed = {test for test, text in said if ASSERTION.match(text)}
    idle = sorted({test.split("::")[1].split("[")[0] for test in mutant.node_ids()} - killed)
    return "no assertion failed in %s: %s" % (", ".join(idle), texts(said)) if idle else None


def texts(said):
    return " | ".join(text for _test, text in said)[:1000]


def parse():
    parser = argparse.ArgumentParser(description="Break the code in known ways and see that the tests notice.")
    parser.add_argument("--sample", type=int, help="only this many, spread over the list")
    parser.add_argument("names", nargs="*", metavar="NAME")
    return parser.parse_args()


def main():
    options, mutants = parse(), read_list()
    wrong = misfits(mutants)
    if wrong:
        print("\n".join(wrong))
        return 2
    unknown = sorted(set(options.names) - {mutant.name for mutant in mutants})
    if unknown:
        print("there is no mutant called: %s" % ", ".join(unknown))
        return 2
    if options.names:
        mutants = [mutant for mutant in mutants if mutant.name in options.names]
    elif options.sample:
        mutants = mutants[:: max(1, len(mutants) // options.sample)][: options.sample]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = queue.Queue()
        for job in range(JOBS):
            trees.put(copy_tree(Path(folder) / str(job)))
        tree = trees.get()
        passed, said = run_tests(tree, sorted({test for mutant in mutants for test in mutant.node_ids()}), ALL_LIMIT)
        trees.put(tree)
        if not passed:
            print("the tests fail without any mutant: %s" % texts(said))
            return 2

        def judge(mutant):
            mine = trees.get()
            try:
                return mutant, verdict(mine, mutant)
            finally:
                trees.put(mine)

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for mutant, trouble in pool.map(judge, mutants):
                failed += bool(trouble)
                print("%-60s %s" % (mutant.name, trouble or "killed"), flush=True)
    print("%d passed, %d failed" % (len(mutants) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
