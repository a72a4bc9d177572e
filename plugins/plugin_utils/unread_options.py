# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that -e gives to a playbook of ours and that only others read. Which ones a playbook reads is in its header."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Set

from ansible import context

from ..module_utils.conductor.errors import UnknownVariable
from ..module_utils.conductor.operations import OPERATIONS
from ..module_utils.model import backup_hints, fleet_hints
from ..module_utils.model.errors import BerthError, joined, shortened
from . import move_options
from .fleet_options import HOSTS
from .screen import warn

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
EXPLAINED = re.compile(r"^#   (berth_\w+)", re.MULTILINE)  # in the header of a playbook
NAMED = re.compile(r"\bberth_\w+")
IMPORTED = re.compile(r"import_playbook: (\w+)\.yml$", re.MULTILINE)
OF_ALL = ("berth_kvm_hosts", "berth_lost_hosts", "berth_own_variables", "berth_where_hosts")
WAYS = ("berth_goal", "berth_migration", "berth_reboot")
HOW = {"cold": "berth_migration", "live": "berth_migration", "offline": "berth_migration", "online": "berth_migration"}
FILES = re.compile(r"\b(\w+)\.yml\b")
DECISION = re.compile(r"__berth_decision: (\w+)")  # the name of a file in tasks
MIGRATE = {"migrate": ("cold_migrate", "live_migrate")}  # which of both, each instance decides
MOVING = frozenset(
    ("apply_plan", "delete", "drain", "return", "rolling_reboot", "unshelve")
)  # by whatever move it takes
TARGETED = {"berth_target_host": ["berth.kvm.create", "berth.kvm.migrate", "others that move"]}
# These give no flavor.
AS_IT_IS = frozenset(("cold_migrate", "confirm_resize", "live_migrate", "migrate", "revert_resize"))
# These choose a host anew, whatever the instance was made with.
TO_ANOTHER = frozenset(("cold_migrate", "live_migrate", "migrate", "prep_resize", "resize"))
# Who gives one of these to one of those wants what it would not do: option -> (playbooks, the hint that says what does it).
INSTEAD = {
    **dict.fromkeys(("berth_force_hosts", "berth_ignore_hosts"), (TO_ANOTHER, fleet_hints.name_target_instead)),
    "berth_new_name": (frozenset(("restore",)), backup_hints.restore_into_another),
}
OF_KVM_HOSTS = frozenset(("prepare_hosts", "rotate_authority"))
CHANGING = OF_KVM_HOSTS.union(
    ("create", "migrate"), move_options.OF_ROLES, (name for name, each in OPERATIONS.items() if each.selected)
)
# What an instance is to be, with which nothing is selected: option -> what it is in a query.
WISHES = {"berth_flavor": "flavor.name", "berth_image": "image", "berth_project": "project", "berth_state": "state"}
OURS = re.compile(r"berth\.kvm\.(\w+)\Z")


def check_unread(given: Mapping[str, Any]) -> None:
    """``given``: what -e says. What the playbook's text does not even name is of no use to it, and it is warned of; what names KVM
    hosts would have a run that changes something choose others, so that is an error. In a playbook of somebody's own each import
    may read others."""
    playbook = _playbook()
    if playbook is None:
        return
    unnamed = set(given).difference(NAMED.findall("".join(_texts(playbook))))
    if not unnamed:
        return  # most runs end here, and read no other file
    unread = unnamed - _of_every_run(playbook) - _of_moves(playbook)
    errors: List[BerthError] = []
    for option in sorted(unread - WISHES.keys()):
        readers = TARGETED.get(option) or _readers(option) or _moves_with(option)
        instead = _instead(playbook, option, given[option])
        named = shortened(readers or ["berth.kvm.create"])
        said = "-e: berth.kvm.%s does not read %s, an option of %s" % (playbook, option, named)
        if instead:
            errors.append(UnknownVariable(said, hint=instead))
        elif (
            readers and option in HOSTS and given[option] not in ("", None) and CHANGING.intersection(_names(playbook))
        ):
            errors.append(UnknownVariable(said, hint=fleet_hints.leave_host_out(playbook in OF_KVM_HOSTS)))
        elif readers:
            warn(said)
    if errors:
        raise joined(errors)
    if "berth_flavor" in unread and AS_IT_IS.intersection(_names(playbook)):
        warn("-e: berth.kvm.%s does not read berth_flavor. %s" % (playbook, fleet_hints.resize_instead()))
    if playbook in ("capacity", "what_if") and "berth_flavor" in unread:
        warn("-e: berth.kvm.%s does not read berth_flavor: it tells of each flavor in berth_flavors" % playbook)
    if "show" in _names(playbook) and "berth_name" not in given:
        for option in sorted(unread & WISHES.keys()):
            query = fleet_hints.select_where(WISHES[option], str(given[option]))
            warn("-e: %s selects no instances. %s" % (option, query))


def _instead(playbook: str, option: str, value: Any) -> Optional[str]:
    """The hint about an option that is given where something else does what it is meant to do."""
    playbooks, hint = INSTEAD.get(option, (frozenset(), None))
    return hint() if hint and value not in ("", None) and playbooks.intersection(_names(playbook)) else None


def runs_ours() -> bool:
    """Whether the run is one of a playbook of ours alone."""
    return _playbook() is not None


def meant_by(word: str) -> List[str]:
    """The options of the playbook of the run that end in ``word``, or that say how it does what: some of these are what somebody
    means who gives it, which nothing reads. None in a playbook of somebody's own, which may read it."""
    playbook = _playbook()
    if playbook is None:
        return []
    options = set(EXPLAINED.findall("".join(_texts(playbook)))) - set(OF_ALL)
    ending = sorted(option for option in options if option.endswith("_" + word))
    return ending or sorted(options & {HOW.get(word)} or options.intersection(WAYS if word in ("mode", "type") else ()))


def _playbook() -> Optional[str]:
    """The name of the only playbook of the run, if that is one of ours."""
    names = [str(name) for name in context.CLIARGS.get("args") or ()]
    ours = OURS.match(names[0]) if len(names) == 1 else None
    return ours[1] if ours and (PLAYBOOKS / (ours[1] + ".yml")).is_file() else None


def _texts(playbook: str) -> Iterator[str]:
    """Of the playbook and of those that it imports by another name."""
    for name in _names(playbook):
        yield _text(name)


def _names(playbook: str) -> Iterator[str]:
    yield playbook
    for imported in IMPORTED.findall(_text(playbook)):
        yield from _names(imported)


def _text(playbook: str) -> str:
    return (PLAYBOOKS / (playbook + ".yml")).read_text("utf-8")


def _of_moves(playbook: str) -> Set[str]:
    """The options of a move that its moves have. Which ones these are, no header explains, but the roles do."""
    names = set(_names(playbook))
    if names & MOVING:
        return set(move_options.CHECKED)
    return {
        option for option in move_options.CHECKED for reader in _moves_with(option) if OURS.match(reader)[1] in names
    }


def _moves_with(option: str) -> List[str]:
    """The playbooks of moves that read it."""
    return [
        "berth.kvm.%s" % name
        for name, roles in {**{role: (role,) for role in move_options.OF_ROLES}, **MIGRATE}.items()
        if any(move_options.OPTIONS[each].variable == option for role in roles for each in move_options.OF_ROLES[role])
    ]


def _of_every_run(playbook: str) -> Set[str]:
    """What the files that playbooks share explain: those of all runs, and the others where the playbook comes to them."""
    shared = [
        *PLAYBOOKS.glob("internal/*.yml"),
        PLAYBOOKS / "tasks" / "plan_moves.yml",
        *_reached(PLAYBOOKS / (playbook + ".yml")),
    ]
    found = {name for path in shared for name in EXPLAINED.findall(path.read_text("utf-8"))}
    return found - (TARGETED.keys() if playbook in OPERATIONS else set())


def _reached(path: Path) -> Set[Path]:
    """The files that a playbook names, and those that these name."""
    found: Set[Path] = set()
    beyond = [path]
    while beyond:
        text = beyond.pop().read_text("utf-8")
        names = {*FILES.findall(text), *DECISION.findall(text)}
        known = {other for name in names for other in PLAYBOOKS.glob("*/%s.yml" % name)}
        beyond += known - found
        found |= known
    return found


def _readers(option: str) -> List[str]:
    """The playbooks whose headers explain it, or else those that come to the file that does."""
    playbooks = sorted(PLAYBOOKS.glob("*.yml"))
    return _explaining(option, {path: [path] for path in playbooks}) or _explaining(
        option, {path: _reached(path) for path in playbooks}
    )


def _explaining(option: str, files: Mapping[Path, Iterable[Path]]) -> List[str]:
    return [
        "berth.kvm.%s" % playbook.stem
        for playbook, paths in files.items()
        if any(option in EXPLAINED.findall(path.read_text("utf-8")) for path in paths)
    ]
