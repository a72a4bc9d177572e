#!/usr/bin/python3
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab guest says on its console, as data. As a command: guest_facts.py FILE... prints JSON lines."""

from __future__ import annotations

import json
import re
import sys

LINE = re.compile(r"berth-guest (\w+)((?: \w+=[^ \n]*)*) end\s*$", re.MULTILINE)
NUMBERS = {
    "vcpus": int,
    "mem_kib": int,
    "disk": int,
    "boots": int,
    "ack": int,
    "seq": int,
    "n": int,
    "errno": int,
    "up": float,
}


def events(text):
    """Console text -> [(event, {key: value})] in order; lines that were cut or disturbed are left out."""
    return [(event, dict(map(_pair, rest.split()))) for event, rest in LINE.findall(text)]


def _pair(word):
    key, _equals, value = word.partition("=")
    if key in NUMBERS:
        try:
            return key, NUMBERS[key](value)
        except ValueError:
            return key, None
    if key == "disks":
        return key, {name: int(size) for name, size in (item.split(":") for item in value.split(",") if item)}
    return key, value


def guest_facts(text):
    """Console text -> the last facts of the last boot, {} before the first; keys as in lab/README.md.

    Added: ``ready`` (this boot came up), ``poweroff`` (it was ended in order), ``ack`` is the highest number
    acknowledged by then, ``verify`` the newest verdict as
    {result: none|ok|bad, last, first_bad}, ``verdicts`` all of them by boot.
    """
    facts, ack, ready, poweroff, verdicts = {}, 0, False, False, []
    for event, values in events(text):
        if event == "verify":
            ready = poweroff = False
            verdicts.append(_verdict(values["result"]))
        elif event == "ready":
            ready = True
        elif event == "poweroff":
            poweroff = True
        elif event == "ack":
            ack = max(ack, values["n"])
        elif event == "facts":
            facts = values
            ack = max(ack, values.get("ack") or 0)
    if not facts:
        return {}
    return {
        **facts,
        "ack": ack,
        "ready": ready,
        "poweroff": poweroff,
        "verify": verdicts[-1] if verdicts else None,
        "verdicts": verdicts,
    }


def _verdict(text):
    """'ok:1735' -> {result, last}; 'bad:12:1735' -> {result, first_bad, last}."""
    result, *numbers = text.split(":")
    names = ("first_bad", "last") if result == "bad" else ("last",)
    return {"result": result, **dict(zip(names, map(int, numbers)))}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8", errors="replace") as handle:
            print(json.dumps(guest_facts(handle.read())))
