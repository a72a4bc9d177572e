# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the collection's decisions with Nova's own code on generated scenarios.

    run.py --oracle DIR --profiles basic az --seeds 0-499 --sizes 12x8 30x12 [--stop]

DIR has nova_oracle.py and gen_scenarios.py; run with the Python that has Nova installed. Prints a count per profile; exit
status 1 on any disagreement, whose scenarios are written to the directory given by --keep.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def seeds(text):
    first, _dash, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oracle", required=True)
    parser.add_argument("--profiles", nargs="+", default=["basic", "az", "groups", "numa", "pci", "caps", "mixed"])
    parser.add_argument("--seeds", type=seeds, default=range(20))
    parser.add_argument("--sizes", nargs="+", default=["12x8"], help="hosts x requests, taken in turn")
    parser.add_argument("--python", default="python3", help="the Python that runs the collection")
    parser.add_argument("--keep", default=None)
    parser.add_argument("--stop", action="store_true", help="at the first disagreement")
    options = parser.parse_args()
    sys.path.insert(0, options.oracle)
    import gen_scenarios
    import nova_oracle

    ours = subprocess.Popen(
        [options.python, str(HERE / "answer.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    bad = 0
    for profile in options.profiles:
        count = collections.Counter()
        for seed in options.seeds:
            hosts, requests = map(int, options.sizes[seed % len(options.sizes)].split("x"))
            scenario = gen_scenarios.generate(seed, hosts, requests, profile)
            ours.stdin.write(json.dumps(scenario) + "\n")
            ours.stdin.flush()
            answers = json.loads(ours.stdout.readline())
            result = nova_oracle.run(scenario, follow=answers, detail=False)
            disagreed = [one["request"] for one in result["requests"] if one["agree"] is False]
            count["scenarios"] += 1
            count["requests"] += len(result["requests"])
            count["agree"] += sum(one["agree"] is True for one in result["requests"])
            count["placed"] += sum(1 for one in answers if one)
            count["nova crashed"] += sum(one["agree"] is None for one in result["requests"])
            count["disagree"] += len(disagreed)
            if disagreed:
                bad += 1
                print("%s seed %d (%dx%d): requests %s" % (profile, seed, hosts, requests, disagreed), flush=True)
                if options.keep:
                    path = Path(options.keep) / ("%s-%d.json" % (profile, seed))
                    path.write_text(json.dumps({"scenario": scenario, "answers": answers}))
                if options.stop:
                    return 1
        print("%-7s %s" % (profile, "  ".join("%s %d" % one for one in count.items())), flush=True)
    ours.stdin.close()
    ours.wait()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
