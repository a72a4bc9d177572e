# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A create, from the plan that placement has made to its end.

Rounds of: claim on the chosen hosts, and have the registry decide which claims stand -> build. What lost its claim or failed to
build is tried on its alternates. At the end unused claims go.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ...model import volumes
from ...model.errors import BerthError
from ...model.messages import Document
from ..build_results import settle
from ..plan import BUILDING, PLANNED, Built, Instance, Plan, host_of, prepare_round
from ..registry.embedded import Embedded
from ..registry.interface import Registry
from .steps import Ask, Procedure, Say, said

NOTHING_SAID: Built = {"changed": False, "reason": "its answer says nothing of this instance"}


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run knows beside its plan. ``build_of``: (inventory name, instance) -> the arguments of its build, a
    BerthError if its variables are wrong."""

    new_token: Callable[[], str]
    build_of: Callable[[str, Instance], Document]
    registry: Registry = Embedded()


def create(plan: Plan, run: Run) -> Procedure[Dict[str, Built]]:
    """Carry out a plan that prepare_round has begun. Return the answer of the last host that built each instance, or was
    to build it: inventory name -> answer."""
    done: Dict[str, Built] = {}
    while True:
        yield from _claim(plan, run)
        done.update((yield from _build(plan, run)))
        yield from run.registry.owned(plan)
        prepare_round(plan, run.new_token)
        if not plan["claims"]:
            break
    yield from run.registry.release(plan)
    return done


def _claim(plan: Plan, run: Run) -> Procedure[None]:
    """Claim until something can be built, or nothing is left to claim."""
    while plan["claims"]:
        yield from run.registry.reserve(plan, run.new_token)
        for name in plan["build"]:
            instance = plan["instances"][name]
            if instance["state"] == BUILDING:
                yield _said(instance, {"state": BUILDING}, attempt=len(instance["attempts"]) + 1)
        if plan["build"]:
            return
        prepare_round(plan, run.new_token)


def _build(plan: Plan, run: Run) -> Procedure[Dict[str, Built]]:
    built: Dict[str, Built] = {}
    wanted: Dict[str, Dict[str, Document]] = {}  # host -> inventory name -> arguments
    for name in plan["build"]:
        instance = plan["instances"][name]
        if instance["state"] == PLANNED:  # in check mode: nothing was claimed, so no host knows it yet
            built[name] = _planned(instance)
            continue
        try:
            wanted.setdefault(host_of(instance), {})[name] = run.build_of(name, instance)
        except BerthError as error:
            refused: Any = {"changed": False, "error": error.to_dict()}
            built[name] = refused
    built.update((yield from _send_images(plan, wanted)))
    asked = {host: {"builds": list(builds.values())} for host, builds in wanted.items() if builds}
    answers = yield Ask("build_instances", asked)
    for host in asked:
        built.update({name: _answer_about(answers[host], build["uuid"]) for name, build in wanted[host].items()})
    for name in built:
        if built[name].get("changed") and built[name].get("instance"):
            yield _said(plan["instances"][name], built[name]["instance"])
    settle(plan, built)
    return built


def _planned(instance: Instance) -> Built:
    """What check mode shows as Ansible's diff of an instance that would be made."""
    name, spec = instance["name"], instance["spec"]
    made = {"host": instance["host"], **{part: (spec.get(part) or {}).get("name") for part in ("flavor", "image")}}
    made["networks"] = [{part: nic[part] for part in ("network", "address")} for nic in spec.get("networks") or ()]
    after = json.dumps(made, indent=1, sort_keys=True) + "\n"
    return {"changed": True, "diff": {"before_header": name, "after_header": name, "before": "", "after": after}}


def _said(instance: Instance, now: Mapping[str, Any], **more: int) -> Say:
    return said(instance["name"], instance["uuid"], instance["host"], now, **more)


def _answer_about(answer: Mapping[str, Any], uuid: str) -> Any:
    """What a host says of one build. If it gave no answer, or its module failed, that counts for all of its builds."""
    if "builds" not in answer:
        return answer
    return next((build["reply"] for build in answer["builds"] if build["uuid"] == uuid), NOTHING_SAID)


def _send_images(plan: Plan, wanted: Dict[str, Dict[str, Document]]) -> Procedure[Dict[str, Built]]:
    """Have each host get the images of its new instances that the controller sends, one after the other. An instance
    whose image does not arrive is taken out of ``wanted``; return why."""
    failed: Dict[str, Built] = {}
    waiting = {host: list(_images(plan, list(builds))) for host, builds in wanted.items()}
    while any(waiting.values()):
        sent = {host: images.pop(0) for host, images in waiting.items() if images}
        answers = yield Ask("cached_image", {host: arguments for host, (_names, arguments) in sent.items()})
        for host, (names, _arguments) in sent.items():
            if answers[host].keys() & {"error", "reason"}:
                failed.update({name: answers[host] for name in names if wanted[host].pop(name, None)})
    return failed


def _images(plan: Plan, names: List[str]) -> Iterator[Tuple[List[str], Document]]:
    """([inventory names], arguments of module cached_image) of each image that a host is sent, once."""
    found: Dict[Tuple[str, Optional[str], int], Tuple[List[str], Document]] = {}
    for name in names:
        instance = plan["instances"][name]
        if instance["state"] != BUILDING or instance.get("take_over"):
            continue
        pool = instance["spec"].get("pool")
        for image, size_gb in to_upload(instance["spec"]):
            arguments = {"image": image, "pool": pool, "root_gb": size_gb}
            users, _arguments = found.setdefault((image["checksum"], pool, size_gb), ([], arguments))
            users.append(name)
    yield from found.values()


def to_upload(spec: Mapping[str, Any]) -> List[Tuple[Document, int]]:
    """[(image, GiB of the disk made from it)]"""
    image = spec.get("image") or {}
    root = [(image, volumes.root_gb(spec))] if image.get("upload") else []
    made_from = [(entry.get("image") or {}, entry["size_gb"]) for entry in spec.get("volumes") or ()]
    return root + [(image, size_gb) for image, size_gb in made_from if image.get("upload")]
