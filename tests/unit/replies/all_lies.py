# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays the lies that the schemas let one host tell, each once in each playbook of lied_runs.py: see test_no_reply_decides.py.

    make lies                                  # all of them: that takes long
    python tests/unit/replies/all_lies.py create resize --most 500 --seed 3

Prints each finding as it comes, and at the end how many lies were played.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[2] / ".cache" / "collections")]

import lied_fleet  # noqa: E402 -- the path is set just above
import lied_runs  # noqa: E402
import lied_verdict  # noqa: E402
import schema_lies  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model import reply  # noqa: E402

WORDS = lied_fleet.WORDS
KINDS = (lied_fleet.ENTITIES, lied_fleet.HOSTS, lied_fleet.VOLUMES)


def lies(module, said):
    return schema_lies.all_lies(module, said, WORDS, KINDS)


def is_valid(module, said, given, lie):
    try:
        reply.check(module, schema_lies.told(said, lie), lied_fleet.LIAR, given)
    except reply.InvalidReply:
        return False
    return True


def legal(name, *more):
    """The honest run of this playbook, and what is legal in it. ``more``: a host that does not answer either, in a third run."""
    honest, silent = lied_runs.play(name), [lied_fleet.SILENT, *(lied_fleet.SILENT | {host} for host in more)]
    return honest, lied_verdict.Legal(honest, *(lied_runs.play(name, each) for each in silent))


def finding_of(name, module, make_lie):
    """What this lie brings about; ``make_lie``: from what the liar would say."""
    honest, verdict = legal(name)
    said = next(said for asked, _given, said in honest.fleet.honest if asked == module)
    return of_lie(name, verdict, module, make_lie(said))


def of_lie(name, verdict, module, lie):
    other = lied_verdict.other_claimed(module, lie[1])
    try:
        verdict = legal(name, other)[1] if other else verdict
        return verdict.findings(lied_runs.play(name, (module, lie)))
    except Exception as error:  # whatever it is: a lie must not crash the controller
        at = traceback.extract_tb(error.__traceback__)[-1]
        return [("crash", "%s: %s" % (type(error).__name__, error), "%s:%d" % (at.filename, at.lineno))]


def findings(name, seed=0, most=None, tell=None):
    """(how many lies were played, [(playbook, module, path, value, finding)]): of each field one after the other, so that a few
    lies are of many fields."""
    honest, verdict = legal(name)
    fields, chance, played, found = [], random.Random(seed), 0, []
    first = {module: (given, said) for module, given, said in reversed(honest.fleet.honest)}
    for module, (given, said) in first.items():
        for of_field in lies(module, said).values():
            chance.shuffle(of_field)
            fields.append((module, given, said, of_field))
    chance.shuffle(fields)
    while fields and played != most:
        module, given, said, of_field = fields.pop(0)
        while of_field and not is_valid(module, said, given, of_field[-1]):
            of_field.pop()
        if not of_field:
            continue
        lie = of_field.pop()
        fields.append((module, given, said, of_field))
        played += 1
        for finding in of_lie(name, verdict, module, lie):
            found.append((name, module, lie[0], str(lie[1])[:200], finding))
            if tell:
                tell(found[-1])
    return played, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of %s" % ", ".join(lied_runs.RUNS))
    parser.add_argument("--most", type=int, help="lies of each playbook")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    total = wrong = 0
    for name in given.names or lied_runs.RUNS:
        played, found = findings(name, given.seed, given.most, lambda one: print(*one, sep="\n    ", flush=True))
        total, wrong = total + played, wrong + len(found)
        print("%s: %d lies, %d findings" % (name, played, len(found)), flush=True)
    print("%d lies, %d findings" % (total, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
