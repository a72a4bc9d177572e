# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry that this host belongs to: {kind, incarnation, revision}, the last being the highest that it has seen. Only runs
over that registry claim, build and move here. A host without a mark belongs to a fleet that is the hosts alone.
"""

from __future__ import annotations

import json
import os

from ...model import registry_hints
from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable
from . import state_file

FILE = "registry.json"
OPTION = {
    "type": "dict",
    "options": {
        "kind": {"type": "str", "required": True},
        "incarnation": {"type": "str", "required": True},
        "revision": {"type": "int", "required": True},
    },
}
_acting = {}  # over which registry this process works


class RegistryDiffers(BerthError):
    """The run uses another registry than the one that the host belongs to, or none, or the host belongs to none. It claims,
    builds and moves nothing there."""


class RegistryBehind(BerthError):
    """The host has seen a newer revision of its registry than the run's. The run may have read it earlier; otherwise the registry
    was restored from a backup. The run claims, builds and moves nothing there."""

    retryable = True


def act_over(mark):
    """Set over which registry this process works: {kind, incarnation, revision}, or None for the hosts alone."""
    _acting.clear()
    _acting.update(mark or {})


def read(state_dir):
    """Return {kind, incarnation, revision}, or None if the host belongs to no registry."""
    return state_file.read(state_dir, FILE, _parse, None)


def reported(state_dir):
    """Return {registry} for the facts of a host that belongs to one."""
    mark = read(state_dir)
    return {"registry": mark} if mark else {}


def _parse(data):
    return {
        "kind": clean(state_file.text(data["kind"]), 20),
        "incarnation": clean(state_file.text(data["incarnation"]), 64),
        "revision": state_file.whole(data["revision"]),
    }


def check(store):
    """Raise RegistryDiffers or RegistryBehind if this process may not claim, build or move here."""
    _check(read(store.state_dir), _acting, os.uname().nodename)


def _check(mark, given, host):
    if _of(mark) != _of(given):
        raise RegistryDiffers(
            "%s belongs to %s, and this run uses %s" % (host, describe(mark), describe(given)),
            hint=registry_hints.use_its_registry(host) if mark else registry_hints.enrol_host(host),
            host=host,
        )
    if mark and given["revision"] < mark["revision"]:
        raise RegistryBehind(
            "%s has seen revision %d of %s, and this run read revision %d"
            % (host, mark["revision"], describe(mark), given["revision"]),
            hint=registry_hints.audit_registry(),
            host=host,
        )


def _of(mark):
    return (mark["kind"], mark["incarnation"]) if mark else None


def describe(mark):
    """Return which registry that is, for people."""
    return "the %s registry %s" % (clean(mark["kind"], 20), clean(mark["incarnation"], 64)) if mark else "no registry"


def check_and_advance(store, dry):
    """Check, then remember the revision. The caller holds the host's lock."""
    check(store)
    if _acting and not dry and _acting["revision"] > read(store.state_dir)["revision"]:
        keep(store, _acting)


def keep(store, mark):
    """Let the host belong to the registry, or with None to none. The caller holds the host's lock, so that no claim goes on."""
    if mark:
        durable.write_in(store.state_dir, FILE, json.dumps(_parse(mark)).encode(), create=True)
    else:
        durable.remove_at("%s/%s" % (store.state_dir, FILE))
