# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the hostile replies of documents/: run it again when a schema gets a key, and look at the difference.

A document is what a lying host makes of a good reply (good.py): {"at": where, "put": what, "expect": outcome}. ``put`` is a
value; or {"$raw": JSON text}, since not every JSON text is a value; {"$long": n}, {"$deep": n} and {"$many": n} for what is
too big for a file. Outcomes:

    refused   an InvalidReply that names host and module
    same      as if the host had not said it
    harmless  it may pass; whatever passes is plain, bounded and fit to be shown, and the others' instances fare the same
    closed    as harmless, but more may be refused: such as two hosts of one uuid, of which none can be taken for the right one
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / ".cache" / "collections")]

from good import KINDS, OP, UUIDS  # noqa: E402

OTHER = "11111111-2222-3333-4444-555555555555"
TEMPLATE = "{{ lookup('ansible.builtin.pipe', 'touch /tmp/owned') }}"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31m\u202eok"
WRONG = {
    str: [7, None, ["x"], {"a": 1}, {"$long": 1 << 21}, TEMPLATE, ESCAPES, "../../etc/shadow\n", "", True],
    bool: ["yes", 1, None, [True], TEMPLATE],
    int: ["1", -1, 1.5, True, {"$raw": "1e400"}, {"$raw": "NaN"}, {"$raw": "1" + "0" * 60}, TEMPLATE],
    float: ["1", {"$raw": "1e400"}, {"$raw": "-Infinity"}, {"$raw": "NaN"}, [1]],
    list: ["text", {"a": 1}, [None], [[]], {"$many": 50000}, {"$deep": 10000}, 7],
    dict: ["text", [], 7, {"$deep": 10000}, {"$deep": 50}, {"$many": 50000}, True],
    type(None): [7.5, [1], {"$deep": 10000}, ESCAPES, True],
}
TAKEN = {str: 3, bool: 2, int: 3, float: 2, list: 3, dict: 2, type(None): 2}
# Ansible acts upon these; whoever wrote them, they are no part of a reply.
ACTED_UPON = {
    "ansible_facts": {"move_plan": {"sequence": "delete"}, "create_host": "h3", "ansible_host": "192.0.2.66"},
    "add_host": {"host_name": "owned", "groups": ["kvm_hosts"], "host_vars": {}},
    "add_group": "kvm_hosts",
    "ansible_stats": {"data": {"owned": 1}, "per_host": False, "aggregate": False},
    "_ansible_notify": ["owned"],
    "_ansible_delegated_vars": {"ansible_delegated_host": "localhost"},
    "_ansible_no_log": True,
    "_ansible_item_label": ESCAPES,
    "invocation": {"module_args": {"x": {"$long": 1 << 20}}},
    "exception": ESCAPES,
    "deprecations": [{"msg": TEMPLATE}],
    "unreachable": True,
    "reason": "UNREACHABLE: by its own word",
    "skipped": True,
    "stdout": ESCAPES,
    "rc": 1,
    "ansible_job_id": "j1",
    "answers": {"h2": {}},
    "include": "../../etc/passwd",
    "results_file": "/etc/shadow",
}
OUTCOMES = [
    ("failed", "yes"), ("failed", 1), ("failed", None), ("changed", "no"), ("changed", None), ("warnings", "text"),
    ("warnings", [7]), ("warnings", {"$many": 50000}), ("warnings", {"a": 1}),
]  # fmt: skip
ERRORS = [
    [1], "text", 7, True, {}, {"code": 7, "message": "x"}, {"code": "A"}, {"message": "x"}, {"code": "A B", "message": ""},
    {"code": "A", "message": ["x"]}, {"code": "A", "message": "x", "retryable": "yes"},
    {"code": "A", "message": "x", "retryable": 1}, {"code": "A", "message": "x", "retryable": None},
    {"code": "A", "message": "x", "hint": {"a": 1}}, {"code": "A", "message": "x", "also": "text"},
    {"code": "A", "message": "x", "also": [1]}, {"code": "A", "message": "x", "also": {"$many": 50000}},
    {"code": {"$deep": 10000}, "message": "x"}, {"code": TEMPLATE, "message": "x"}, {"code": ESCAPES, "message": "x"},
    {"code": "../../A", "message": "x"}, {"code": "A", "message": {"$deep": 10000}},
]  # fmt: skip
SPEECH = [
    {"code": "A", "message": TEMPLATE}, {"code": "A", "message": ESCAPES}, {"code": "A", "message": {"$long": 1 << 21}},
    {"code": "A", "message": "x", "hint": "run rm -rf /\n" + ESCAPES}, {"code": "A", "message": "x", "host": TEMPLATE},
    {"code": "A", "message": "a\nok: [h2]\nb"}, {"code": "A", "message": "x", "unknown": {"$deep": 900}},
]  # fmt: skip
# Well-formed and not true, or of another instance, by kind.
LIES = {
    "facts": [
        (["ansible_facts", "berth_host", "uuid"], UUIDS["h2"], "closed"),
        (["ansible_facts", "berth_host", "host"], "h2", "harmless"),
        (["ansible_facts", "berth_host", "num_instances"], 7, "refused"),
        (["ansible_facts", "berth_host", "free_ram_mb"], 1 << 40, "harmless"),
        (["ansible_facts", "berth_host", "failed_builds"], 1 << 40, "harmless"),
        (["ansible_facts", "berth_host", "failed_build_age_s"], 1 << 40, "refused"),
        (["moves", 0, "uuid"], OTHER, "refused"),
        (["moves", 0, "spec", "uuid"], OTHER, "refused"),
        (["moves", 0, "spec", "instance_uuids"], [OTHER], "refused"),
        (["moves", 0, "name"], "at-rest-h2", "refused"),
        (["moves", 0, "project_id"], "other", "refused"),
        (["moves", 0, "spec", "project_id"], "other", "refused"),
        (["moves", 0, "spec", "name"], "at-rest-h2", "refused"),
        (["moves", 0, "op"], OP, "refused"),
        (["moves", 0, "role"], "IN", "refused"),
        (["moves", 0, "lost_moves"], [None], "refused"),
        (["moves", 0, "lost_moves"], [OP], "harmless"),
        (["moves", 1, "op"], None, "refused"),
        (["moves", 1, "op"], OTHER, "refused"),
        (["moves", 1, "migration"], None, "refused"),
        (["moves", 1, "generation"], [1 << 40, 1 << 40], "harmless"),
        (["moves", 1, "generation"], [1], "refused"),
        (["moves", 1, "generation"], [2, 3, 4], "refused"),
        (["moves", 1, "generation"], [0, 0], "harmless"),
        (["moves", 1, "role"], "OWN", "harmless"),
        (["moves", 1, "role"], "IN", "harmless"),
        (["moves", 1, "phase"], "resized", "harmless"),
        (["moves", 1, "phase"], "no-such-phase", "harmless"),
        (["moves", 1, "attempt"], 1 << 40, "harmless"),
        (["moves", 1, "lost_moves"], [OP], "harmless"),
        (["moves", 1, "migration", "type"], "live-migration", "harmless"),
        (["moves", 1, "migration", "source", "uuid"], OTHER, "harmless"),
        (["moves", 1, "migration", "source", "uuid"], UUIDS["h3"], "harmless"),
        (["moves", 1, "migration", "destination", "uuid"], OTHER, "harmless"),
        (["moves", 1, "migration", "destination", "uuid"], UUIDS["h3"], "harmless"),
        (["moves", 1, "migration", "destination", "name"], "h3", "harmless"),
        (["moves", 1, "migration", "new_spec", "name"], "at-rest-h2", "refused"),
        (["moves", 1, "confirm_in"], 1 << 41, "refused"),
    ],
    "claims": [
        (["results", 0, "uuid"], OTHER, "refused"),
        (["results", 0, "token"], "d" * 32, "refused"),
        (["results"], [], "harmless"),
        (["results", 0, "claimed"], False, "harmless"),
        (["results", 0, "error"], {"code": "A", "message": "x", "retryable": "yes"}, "refused"),
        (["results", 0, "error"], [1], "refused"),
    ],
    "rescans": [
        (["host_uuid"], UUIDS["h2"], "harmless"),
        (["notes"], {OTHER: {"known": None, "planned": [], "after": 0, "gone": None, "left": None}}, "refused"),
        (["instances", 2, "token"], "d" * 32, "harmless"),
        (["instances", 2, "role"], "OWN", "harmless"),
        (["instances", 0, "vcpus"], 1 << 39, "closed"),
        (["instances"], [], "harmless"),
        (["volumes", 0, "size_gb"], 1 << 39, "closed"),
        (["volumes", 0, "size_gb"], 1 << 41, "refused"),
        (["volumes", 0, "uuid"], OTHER, "harmless"),
        (["volumes", 0], {"uuid": OTHER}, "refused"),
    ],
    "looks": [
        (["looks", 0, "uuid"], OTHER, "refused"),
        (["looks", 0, "instance"], None, "refused"),
        (["looks", 0, "instance", "uuid"], OTHER, "refused"),
        (["looks", 0, "converged"], False, "harmless"),
        (["looks", 0, "filters"], {}, "harmless"),
        (["looks"], [], "harmless"),
    ],
    "builds": [(["instance", "uuid"], OTHER, "refused"), (["instance", "state"], "absent", "harmless")],
    "builds of a host": [
        (["builds", 0, "uuid"], OTHER, "refused"),
        (["builds", 0, "reply", "instance", "uuid"], OTHER, "refused"),
        (["builds", 1, "reply"], {"failed": True, "error": {"code": "A"}}, "refused"),
        (["builds", 0, "reply", "ansible_facts"], ACTED_UPON["ansible_facts"], "same"),
        (["builds"], [], "harmless"),
    ],
    "moves": [
        (["move", "uuid"], OTHER, "refused"),
        (["token", "op"], OTHER, "refused"),
        (["token", "op"], None, "refused"),
        (["token", "attempt"], 1 << 39, "harmless"),
        (["move", "migration", "new_spec", "project_id"], "other", "refused"),
        (["move", "targets", 0, "host"], "192.0.2.1,exec=/bin/sh", "refused"),
        (["move", "targets", 0, "port"], 65536, "refused"),
        (["move", "targets"], {"arrived": 1}, "refused"),
        (["move", "disks", 0, "name"], "../../etc/shadow", "refused"),
        (["move", "role"], None, "harmless"),
    ],
    "instances": [(["instances", 0, "uuid"], "../../x", "refused")],
    "certificates": [(["held"], {"libvirt": {}, "other": {}}, "refused")],
}
# Below these is what only people read: a number for a text there is odd, and no harm.
FREE = (
    "faults",
    "history",
    "percent",
    "rate",
    "seconds",
    "value",
    "metadata",
    "scheduler_hints",
    "also",
    "host",
    "image_props",
    "cpu_info",
)
UNREAD = {"services": [["name"]], "errors": [["error_code"], ["retryable"]]}


def leaves(value, at=()):
    """Every place in a reply; of a list the first item only."""
    yield list(at), value
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, part in items:
        yield from leaves(part, (*at, key))


def wrong_types(kind, reply):
    """Each part of the reply with values of another kind in its place, in turn, so that all kinds meet all kinds."""
    turn = 0
    for at, value in leaves(reply):
        if not at or at[-1] in ("failed", "changed") or at in UNREAD.get(kind, ()):
            continue
        choices = WRONG[type(value)]
        for _one in range(TAKEN[type(value)]):
            put = choices[turn % len(choices)]
            turn += 1
            yield {"at": at, "put": put, "expect": expected(at, value, put)}


def expected(at, value, put):
    plain = type(put) in (list, dict) and not str(next(iter(put), "")).startswith("$")
    wrong = type(put) is not type(value) and put is not None and value is not None
    free = any(part in FREE for part in at if isinstance(part, str)) or value == {} or value == []
    return "refused" if wrong and not free and (plain or type(put) in (int, float, bool, str)) else "harmless"


def documents(kind, reply):
    for name, put in ACTED_UPON.items():
        if name not in reply:
            yield {"at": [name], "put": put, "expect": "same"}
        else:
            yield {"at": [name, "owned"], "put": put, "expect": "same"}
            yield {"at": [name, "move_plan"], "put": {"sequence": "delete"}, "expect": "same"}
    for name, put in OUTCOMES:
        yield {"at": [name], "put": put, "expect": "refused"}
    for put in ERRORS if kind == "errors" else ERRORS[:2]:
        yield {"at": [], "put": {"failed": True, "error": put}, "expect": "refused"}
    for put in SPEECH if kind == "errors" else ():
        yield {"at": [], "put": {"failed": True, "msg": ESCAPES, "error": put}, "expect": "harmless"}
    for put in ("text", [1], 7, None, {"$deep": 10000}, {"$deep": 300}):
        yield {"at": [], "put": put, "expect": "refused"}
    for at, put, expect in LIES.get(kind, ()):
        yield {"at": at, "put": put, "expect": expect}
    yield from wrong_types(kind, reply)


def main():
    count = 0
    for kind, (_module, make) in KINDS.items():
        _arguments, reply = make("h1")
        lines = [json.dumps(document) for document in documents(kind, reply)]
        count += len(lines)
        (HERE / "documents" / (kind + ".json")).write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
    print("%d documents" % count)


if __name__ == "__main__":
    main()
