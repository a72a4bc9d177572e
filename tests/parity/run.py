# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the collection's decisions with Nova's own code on generated scenarios.

    run.py --oracle DIR --profiles basic az all odd --seeds 0-499 --sizes 12x8 30x12 [--stop]

DIR has nova_oracle.py and gen_scenarios.py; run with the Python that has Nova installed. A profile is one of
scenarios.py here, or of gen_scenarios.py. Prints a count per profile; exit status 1 on any disagreement, whose scenarios
are written to the directory given by --keep. A request on which Nova itself raises, or on which it draws lots in a way
that cannot be imposed on it, has no answer to compare with: the scenario is asked again without it, and it is counted.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
from pathlib import Path

import scenarios

HERE = Path(__file__).resolve().parent
GIVEN = ("basic", "az", "groups", "numa", "pci", "caps", "mixed")


def seeds(text):
    first, _dash, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def nova(oracle):
    """The function that decides a scenario by Nova's own code; ``oracle`` is the directory of nova_oracle.py."""
    sys.path.insert(0, oracle)
    import nova_oracle
    from nova.pci import request as pci_request

    def run(scenario, **more):
        # Nova reads its PCI aliases once per process; every scenario has its own.
        pci_request.get_alias_from_config.cache_clear()
        return nova_oracle.run(scenario, **more)

    return run


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oracle", required=True)
    parser.add_argument("--profiles", nargs="+", default=[*GIVEN, *scenarios.PROFILES])
    parser.add_argument("--seeds", type=seeds, default=range(20))
    parser.add_argument("--sizes", nargs="+", default=["12x8"], help="hosts x requests, taken in turn")
    parser.add_argument("--python", default="python3", help="the Python that runs the collection")
    parser.add_argument("--keep", default=None)
    parser.add_argument("--stop", action="store_true", help="at the first disagreement")
    return parser.parse_args()


def main():
    options = parse()
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, options.oracle)
    import gen_scenarios

    run = nova(options.oracle)
    ours = subprocess.Popen(
        [options.python, str(HERE / "answer.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def ask(scenario):
        ours.stdin.write(json.dumps(scenario) + "\n")
        ours.stdin.flush()
        return json.loads(ours.stdout.readline())

    bad = 0
    for profile in options.profiles:
        generate = gen_scenarios.generate if profile in GIVEN else scenarios.generate
        count = collections.Counter(scenarios=0, requests=0, agree=0, placed=0, disagree=0)
        for seed in options.seeds:
            hosts, requests = map(int, options.sizes[seed % len(options.sizes)].split("x"))
            scenario = generate(seed, hosts, requests, profile)
            scenario, answers, result, left_out = compare(scenario, ask, run)
            disagreed = [request["request"] for request in result["requests"] if request["agree"] is False]
            count["scenarios"] += 1
            count["requests"] += len(result["requests"])
            count["agree"] += sum(request["agree"] is True for request in result["requests"])
            count["placed"] += sum(1 for answer in answers if answer)
            count["disagree"] += len(disagreed)
            count.update(left_out)
            if disagreed:
                bad += 1
                print("%s seed %d (%dx%d): requests %s" % (profile, seed, hosts, requests, disagreed), flush=True)
                if options.keep:
                    path = Path(options.keep) / ("%s-%d.json" % (profile, seed))
                    path.write_text(json.dumps({"scenario": scenario, "answers": answers}))
                if options.stop:
                    return 1
        print("%-9s %s" % (profile, "  ".join("%s %d" % item for item in count.items())), flush=True)
    ours.stdin.close()
    ours.wait()
    return 1 if bad else 0


def compare(scenario, ask, run):
    """(scenario, our answers, Nova's result, Counter of the requests that were taken out, and why)."""
    left_out = collections.Counter()
    while True:
        answers = ask(scenario)
        result = run(scenario, follow=answers, detail=False)
        for number, request in enumerate(result["requests"]):
            why = "Nova raised" if request["agree"] is None else by_chance(scenario, answers[number], request)
            if why:
                # Up to here the state of both sides is the same.
                left_out[why] += 1
                del scenario["requests"][number]
                break
        else:
            return scenario, answers, result, left_out


def by_chance(scenario, answer, result):
    """Whether Nova would draw lots here and could have drawn as we did: the oracle cannot always be made to."""
    options = scenario["config"].get("filter_scheduler", {})
    if result["agree"] or options.get("host_subset_size", 1) == 1:
        return None
    instances = result["instances"]
    if not answer:
        # A group or a multi-create may fail on one of the hosts that were drawn and not on another.
        return "by chance" if len(instances) > 1 else None
    first = next((at for at, instance in enumerate(instances) if not instance.get("follow_ok")), len(instances))
    drawn = first < min(len(answer), len(instances)) and answer[first] in instances[first].get("acceptable", ())
    return "by chance" if drawn else None


if __name__ == "__main__":
    sys.exit(main())
