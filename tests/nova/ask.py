# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Nova's own unit tests and ask this collection's placement the same; run.py starts it with the Python that has Nova.

Prints how many tests were asked, agree, differ, and why others were not asked; exit status 1 where a test differs that
docs/nova-differences.md does not name, or where fewer are asked than ENOUGH.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import pkgutil
import re
import sys
import unittest
import unittest.mock
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
warnings.simplefilter("ignore")

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path
from ledger import Ledger  # noqa: E402

ENOUGH = 760
DIFFERENCES = HERE.parents[1] / "docs" / "nova-differences.md"
TESTS = "nova.tests.unit."
PACKAGES = ("scheduler.filters", "scheduler.weights")
MODULES = (
    "scheduler.test_filters", "scheduler.test_host_filters", "scheduler.test_host_manager", "scheduler.test_manager",
    "scheduler.test_request_filter", "scheduler.test_utils", "virt.test_hardware", "pci.test_request", "pci.test_stats",
    "objects.test_image_meta",
)  # fmt: skip


class Result(unittest.TestResult):
    """Tells the ledger which test runs."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger, self.names = ledger, []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self.ledger.test = test.id()
        self.names.append(test.id())

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        self.ledger.test = None


def add_removed(wheel: str) -> None:
    """Filters that have left Nova, and their tests, out of an older wheel; what is there today stays as it is."""
    import nova.i18n

    sys.modules["mock"] = unittest.mock
    for name in ("_LE", "_LI", "_LW"):  # what marked texts for translation then
        setattr(nova.i18n, name, str)
    for name in ("nova.scheduler.filters", TESTS + "scheduler.filters"):
        package = importlib.import_module(name)
        package.__path__.append("%s/%s" % (wheel, name.replace(".", "/")))


def suites() -> unittest.TestSuite:
    names = [TESTS + name for name in MODULES]
    for package in PACKAGES:
        found = pkgutil.iter_modules(importlib.import_module(TESTS + package).__path__)
        names += ["%s%s.%s" % (TESTS, package, entry.name) for entry in found if entry.name.startswith("test_")]
    loaded = []
    for name in dict.fromkeys(names):
        try:
            loaded.append(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name)))
        except ImportError as error:
            print("%s cannot be imported: %s" % (name, error))
    return unittest.TestSuite(loaded)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--removed", help="an older wheel of Nova, for the filters that have left it")
    parser.add_argument("--verbose", action="store_true", help="every test that was not asked, with its reason")
    parser.add_argument("--out", help="write the answers to a file as JSON")
    options = parser.parse_args()
    if options.removed:
        add_removed(options.removed)
    ledger = Ledger()
    tests = suites()
    for name in ("hardware_questions", "pci_questions", "scheduler_questions", "request_questions"):
        importlib.import_module(name).install(ledger)
    result = Result(ledger)
    tests.run(result)
    return report(ledger, result, options)


def report(ledger: Ledger, result: Result, options: argparse.Namespace) -> int:
    broken = {test.id(): text.strip().splitlines()[-1] for test, text in result.failures + result.errors}
    names = list(dict.fromkeys(result.names))
    asked = [name for name in names if ledger.asked[name] and name not in broken]
    differ = [name for name in asked if name in ledger.differences]
    told = DIFFERENCES.read_text(encoding="utf-8")
    unknown = [name for name in differ if not re.search(r"\b%s\b" % re.escape(short(name)), told)]
    reasons = {name: reason(ledger, broken, name) for name in names if name not in asked}
    for name in differ:
        print("%s %s" % ("DIFFERS" if name in unknown else "differs, as documented:", short(name)))
        for line in ledger.differences[name]:
            print("    " + line)
    if options.verbose:
        print("".join("not asked: %s: %s\n" % (short(name), why) for name, why in reasons.items()), end="")
    for why, count in collections.Counter(reasons.values()).most_common():
        print("%4d not asked: %s" % (count, why))
    questions = sum(ledger.asked[name] for name in asked)
    print("%d tests of Nova: %d asked (%d questions)" % (len(names), len(asked), questions))
    print("%d agree, %d differ (%d not documented)" % (len(asked) - len(differ), len(differ), len(unknown)))
    print("%d not asked" % len(reasons))
    if options.out:
        Path(options.out).write_text(
            json.dumps({"asked": asked, "differ": ledger.differences, "not asked": reasons}, indent=1)
        )
    if len(asked) < ENOUGH:
        print("fewer than %d tests were asked" % ENOUGH)
    return 1 if unknown or len(asked) < ENOUGH else 0


def short(name: str) -> str:
    """TestClass.test_name"""
    return ".".join(name.split(".")[-2:])


def reason(ledger: Ledger, broken: dict[str, str], name: str) -> str:
    if name in broken:
        return "Nova's own test does not pass here"
    found = ledger.reasons.get(name)
    return found[0] if found else no_question(name)


# Why a test asks nothing, by what its name contains.
NO_QUESTION = (
    ("obj_make_compatible", "it is about versions of objects on Nova's message bus"),
    ("TestImageMeta", "it is about Nova's objects as such"),
    ("routed_network", "routed networks are Neutron's"),
    ("owner_nova", "of Placement with several owners"),
    ("pci_request_ids", "devices are resource providers of their own in Placement: a host here is one provider"),
    ("MappingTestCase", "devices are resource providers of their own in Placement: a host here is one provider"),
    (
        "PlacementSupportTestCase",
        "devices are resource providers of their own in Placement: a host here is one provider",
    ),
    ("provider_mapping", "devices are resource providers of their own in Placement: a host here is one provider"),
    ("PciDeviceStats", "it keeps a list of devices, which here is read from the host anew each time"),
    ("PciRequestTestCase", "its requests come from Neutron's ports"),
    ("claim_resources", "it calls Placement's service"),
    ("set_vm_state", "it writes Nova's database or messages"),
    ("populate_", "it passes on what a retry of Nova's knows"),
    ("build_", "it passes on what a retry of Nova's knows"),
    ("group_details", "it reads groups out of Nova's database"),
    ("setup_instance_group", "it reads groups out of Nova's database"),
    ("HostState", "it builds hosts out of Nova's database"),
    ("HostManager", "it builds hosts out of Nova's database"),
    ("SchedulerManager", "parts of Nova are replaced in it"),
    ("FiltersTestCase", "it is about the loop over filters of its own"),
    ("_configured", "it looks at names in Nova's configuration"),
    ("compute_status_filter", "it is about the words of Placement's query"),
    ("isolate_agg", "it is about the words of Placement's query"),
    ("process_reqspec", "it is about the order of calls"),
)


def no_question(name: str) -> str:
    return next((why for part, why in NO_QUESTION if part in name), "it calls no rule of placement")


if __name__ == "__main__":
    sys.exit(main())
