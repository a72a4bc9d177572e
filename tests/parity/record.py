# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what Nova decided, to be replayed without it: scenarios with, per instance, the hosts Nova may choose.

    record.py --oracle DIR --seeds 0-7 OUT.jsonl.gz

A line is {profile, scenario, answers}: the answers are ours, each of which Nova's own code accepted (it lay in the set of
equally good hosts); a scenario with a disagreement is not recorded but fails the run. Of our own profiles, whose
scenarios are larger, half as many are recorded.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import answer  # noqa: E402
import scenarios  # noqa: E402
from run import GIVEN, compare, nova, seeds  # noqa: E402

SEED = 100000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oracle", required=True)
    parser.add_argument("--seeds", type=seeds, default=range(8))
    parser.add_argument("out")
    options = parser.parse_args()
    decide = nova(options.oracle)
    import gen_scenarios

    made = [(each, gen_scenarios.generate(SEED + seed, 10, 6, each)) for each in GIVEN for seed in options.seeds]
    own = options.seeds[: len(options.seeds) // 2]
    made += [(each, scenarios.generate(SEED + seed, 5, 5, each)) for each in scenarios.PROFILES for seed in own]
    lines = []
    for profile, scenario in made:
        scenario, answers, result, _left_out = compare(scenario, answer.answer, decide)
        if not all(request["agree"] for request in result["requests"]):
            sys.exit("%s: Nova decides otherwise" % profile)
        lines.append(json.dumps({"profile": profile, "scenario": scenario, "answers": answers}, separators=(",", ":")))
    with open(options.out, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
        out.write(("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main()
