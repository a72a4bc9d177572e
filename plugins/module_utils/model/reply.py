# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one check that every reply of every module passes before the controller looks at it: its keys and values, and that it
answers what was asked (only instances and operations that the question named).

A host may send anything. The result is a new reply with only the keys of reply_shapes.py: no ``ansible_facts`` but the
document of the host, nothing else that Ansible would act upon, and only texts that are safe to show. Anything else
raises InvalidReply, the error of that host.
"""

# True is an int to isinstance, and a subclass may behave in any way: here the exact type counts.
# pylint: disable=unidiomatic-typecheck

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Set

from .errors import BerthError
from .messages import Document
from .reply_shapes import REPLIES
from .shape import Fault, cleaned, flag, list_of, object_of, or_null, show, shown, word

Reply = Document
MOST_WARNINGS = 100
LONGEST = 4000  # characters of what a reply says to people
# The keys of every reply, whatever the module.
OUTCOME = ("changed", "failed", "msg", "error", "module_stderr", "warnings")


class InvalidReply(BerthError):
    """The reply of a module on a host does not have its documented format. It was not used; the run continues with the other hosts."""


def wanted(module: str) -> Set[str]:
    """Return the keys of a module's reply that any code reads; the others need not even be copied."""
    return {*OUTCOME, *REPLIES[module].fields}


def check(module: str, reply: Any, host: str, arguments: Optional[Mapping[str, Any]] = None) -> Reply:
    """Return the cleaned reply of ``module`` (its short name) from ``host``, which was run with ``arguments``.

    A failed one has ``failed``, ``msg``, ``error_code``, ``retryable`` and ``error``. Raises InvalidReply.
    """
    try:
        return _checked(module, reply, host, arguments or {})
    except Fault as fault:
        raise invalid(module, host, fault.field(), fault.value, fault.rule) from None


def _checked(module: str, reply: Any, host: str, arguments: Mapping[str, Any]) -> Reply:
    outcome = _outcome(reply)
    if outcome["failed"]:
        return _failure(outcome, reply)
    cleaned_reply = REPLIES[module](reply)
    _check_answers(module, cleaned_reply, arguments)
    if module == "build_instances":
        cleaned_reply["builds"] = _of_each_build(cleaned_reply["builds"], host)
    if outcome["warnings"]:
        cleaned_reply["warnings"] = outcome["warnings"]
    return {"changed": outcome["changed"], **cleaned_reply}


def invalid(module: str, host: str, field: str, value: Any, rule: str) -> InvalidReply:
    message = "%s: %s is not valid in the reply of module %s" % (host, field, module)
    return InvalidReply(message, field=field, value=show(value), rule=rule, host=host, module=module)


# ---- what every reply has --------------------------------------------------------------------------------------------

_LINE = cleaned(LONGEST)
_OUTCOME_FIELDS = object_of(
    {"changed": flag, "failed": flag, "warnings": list_of(cleaned(), MOST_WARNINGS)},
    optional=("changed", "failed", "warnings"),
)


def _outcome(reply: Any) -> Reply:
    return {"changed": False, "failed": False, "warnings": [], **_OUTCOME_FIELDS(reply)}


def _said_value(value: Any) -> Any:
    """Return the value that an error names, made safe to show."""
    return cleaned(200)(value) if type(value) is str else value if type(value) in (bool, int) else show(value)


# The details of an error, beyond its text, that are for people to read.
_DETAILS = ("attr", "state", "uuid", "host", "role", "phase", "group", "members", "domain", "locked_by")
_OF_ERROR = {
    "code": word("[A-Za-z][A-Za-z0-9]*", 64),
    "message": _LINE,
    "retryable": flag,
    "hint": or_null(_LINE),
    "field": or_null(_LINE),
    "value": _said_value,
    "rule": or_null(_LINE),
    **dict.fromkeys(_DETAILS, shown),
}
_OPTIONAL = set(_OF_ERROR) - {"code", "message"}
_SINGLE_ERROR = object_of(_OF_ERROR, _OPTIONAL)
error = object_of({**_OF_ERROR, "also": list_of(_SINGLE_ERROR, 1000)}, _OPTIONAL | {"also"})


def _failure(outcome: Reply, reply: Reply) -> Reply:
    failure = object_of(
        {"error": or_null(error), "msg": or_null(_LINE), "module_stderr": or_null(_LINE)},
        optional=("error", "msg", "module_stderr"),
    )(reply)
    details = failure.get("error") or _untyped(failure)
    details = {"retryable": False, **details}
    result = {
        "failed": True,
        "changed": outcome["changed"],
        "msg": failure.get("msg") or "%s: %s" % (details["code"], details["message"]),
        "error_code": details["code"],
        "retryable": details["retryable"],
        "error": details,
    }
    return {**result, "warnings": outcome["warnings"]} if outcome["warnings"] else result


def _untyped(failure: Reply) -> Reply:
    """Return an error for a module that failed without a typed one, or never started."""
    message = failure.get("msg") or "the module failed"
    if failure.get("module_stderr"):
        message += ": " + failure["module_stderr"][-500:]
    return {"code": "ModuleFailed", "message": message, "retryable": False}


# ---- whether it answers what was asked -------------------------------------------------------------------------------

# The keys for many instances in a reply, and those for the single instance in the module's arguments.
_OF_MANY = {
    "build_instances": ("builds",),
    "claim": ("results",),
    "host_facts": ("looks", "moves", "attached"),
    "instance_info": ("instances", "foreign"),
    "rescan": ("instances",),
    "volume_info": ("volumes", "deleted"),
}
_OF_SINGLE = {
    "instance": "instance",
    "instance_backup": "instance",
    "instance_copy": "instance_copy",
    "migration": "move",
}


def _check_answers(module: str, reply: Reply, arguments: Mapping[str, Any]) -> None:
    """Refuse a reply that names an instance twice, or one that it was not asked about."""
    for name in _OF_MANY.get(module, ()):
        found = [entry["uuid"] for entry in reply.get(name, ()) if entry["uuid"] is not None]
        if len(set(found)) != len(found):
            raise Fault(found, "each uuid once", name)
    if module in _OF_SINGLE and reply[_OF_SINGLE[module]]["uuid"] != arguments.get("uuid"):
        name = _OF_SINGLE[module]
        raise Fault(reply[name]["uuid"], "the uuid of the instance that was asked about", "uuid", name)
    if module == "backup_store" and reply["uuid"] != arguments.get("uuid"):
        raise Fault(reply["uuid"], "the uuid of the instance that was asked about", "uuid")
    if module == "migration":
        asked, told = (arguments.get("token") or {}).get("op"), reply["token"].get("op")
        if told != asked:
            raise Fault(told, "the operation that was asked for", "op", "token")
    if module == "claim":
        _check_claims(reply, arguments.get("claims") or ())
    if module == "build_instances":
        _check_asked(reply["builds"], {each["uuid"] for each in arguments.get("builds") or ()}, "builds")
    if module == "volume_info":
        for name in _OF_MANY[module]:
            _check_asked(reply[name], set(arguments.get("uuids") or ()), name)
    for at, look in enumerate(reply.get("looks") or ()):
        if look["instance"]["uuid"] != look["uuid"]:
            raise Fault(look["instance"]["uuid"], "the uuid of the instance", "uuid", "instance", at, "looks")
    if module == "host_facts":
        _check_asked(reply.get("attached") or (), set(arguments.get("about") or ()), "attached")
    if not set(reply.get("notes") or ()) <= set(arguments.get("about") or ()):
        raise Fault(sorted(reply["notes"]), "the instances that were asked about", "notes")


def _check_asked(entries: Iterable[Document], asked: Set[str], name: str) -> None:
    for at, entry in enumerate(entries):
        if entry["uuid"] not in asked:
            raise Fault(entry["uuid"], "one that was asked about", "uuid", at, name)


def _of_each_build(builds: Iterable[Document], host: str) -> List[Document]:
    """Check each build as a reply of module instance: a fault is the error of that build alone."""
    found = []
    for at, build in enumerate(builds):
        try:
            checked = _checked("instance", build["reply"], host, {"uuid": build["uuid"]})
        except Fault as fault:
            fault.path += ["reply", at, "builds"]
            error = invalid("build_instances", host, fault.field(), fault.value, fault.rule)
            checked = {"failed": True, "changed": False, **error.to_result()}
        found.append({**build, "reply": checked})
    return found


def _check_claims(reply: Reply, claims: Iterable[Document]) -> None:
    tokens = {claim["spec"].get("uuid"): claim.get("token") for claim in claims}
    for at, result in enumerate(reply["results"]):
        if result["uuid"] is not None and result["uuid"] not in tokens:
            raise Fault(result["uuid"], "an instance for which room was to be claimed", "uuid", at, "results")
        if result["claimed"] and tokens.get(result["uuid"]) not in (None, result["token"]):
            raise Fault(result["token"], "the token of the claim", "token", at, "results")
