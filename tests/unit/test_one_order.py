# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of an operation is written once, in conductor/procedures/: what tests carry out is what ships, and no action or test
has an order of its own."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONDUCTOR = ROOT / "plugins/module_utils/conductor"
# The explorer of two hosts has no fleet to plan in: it finds the sides of a move and asks what is next, of every state of both.
OF_TWO_HOSTS = "tests/protocol/move_runs.py: _plan takes steps of plan_moves.py itself: moving.plan, sides.find"
MOST = 1  # steps of one procedure that a function elsewhere may take itself: 0 of those that procedures alone take, if it drives
PLAYS = (
    "tests/protocol",
    "tests/unit/plugins/module_utils/fleet_case.py",
)  # whole operations, so even their only step is an order
ALONE = ("steps", "telling")  # files of procedures/ whose functions procedures alone take: who takes one has an order


def steps_of(tree, known):
    """The functions of the conductor that each function of a file calls: {its name: {module.function}}."""
    modules, functions = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin = (node.module or "").rpartition(".")[2]
            for each in node.names:
                name = each.asname or each.name
                modules[name] = each.name
                functions[name] = "%s.%s" % (origin, each.name)
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
            dotted = {
                "%s.%s" % (modules.get(call.value.id), call.attr)
                for call in calls
                if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name)
            }
            named = {functions.get(call.id) for call in calls if isinstance(call, ast.Name)}
            found[node.name] = (dotted | named) & known
    return found


@functools.lru_cache(maxsize=None)
def conductor_functions():
    return {
        "%s.%s" % (path.stem, node.name)
        for path in CONDUCTOR.glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and path.stem not in ("closing_table", "fleet", "silence")
    }


@functools.lru_cache(maxsize=None)
def of_procedures_alone():
    """The functions that make an order of procedures, and those by which locating finds hosts."""
    folder = {stem: CONDUCTOR / "procedures" / (stem + ".py") for stem in ALONE} | {"locate": CONDUCTOR / "locate.py"}
    return {
        "%s.%s" % (stem, node.name)
        for stem, path in folder.items()
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and (stem in ALONE or node.name.startswith("locate_to_"))
    }


@functools.lru_cache(maxsize=None)
def procedures():
    """{procedure file: the steps that it takes in its order}"""
    known = conductor_functions()
    found = {}
    for path in sorted((CONDUCTOR / "procedures").glob("*.py")):
        steps = set().union(*steps_of(ast.parse(path.read_text("utf-8")), known).values())
        found[path.name] = steps
    return found


@functools.lru_cache(maxsize=None)
def taken_elsewhere():
    """The functions of the conductor that other code of the collection calls, too."""
    known, found = conductor_functions(), set()
    for path in (ROOT / "plugins").rglob("*.py"):
        if path.parent.name != "procedures":
            found.update(*steps_of(ast.parse(path.read_text("utf-8")), known).values())
    return found


def copies(name, text):
    """The functions of a file that take several steps of one procedure themselves, or play an operation with one."""
    known = conductor_functions()
    return [
        "%s: %s takes steps of %s itself: %s" % (name, function, procedure, ", ".join(sorted(steps & taken)))
        for function, taken in steps_of(ast.parse(text), known).items()
        for procedure, steps in procedures().items()
        if len(steps & taken) > MOST or (str(name).startswith(PLAYS) and (steps & taken) - taken_elsewhere())
    ] + [
        "%s: %s has an order of its own: %s" % (name, function, ", ".join(sorted(taken)))
        for function, taken in steps_of(ast.parse(text), of_procedures_alone()).items()
        if taken
    ]


def drivers():
    """All that carries operations out, or plays them: the actions, and what the tests share."""
    for folder in ("plugins/action", "plugins/plugin_utils", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not re.match("test_", path.name):
                yield path


def test_the_order_of_an_operation_is_nowhere_but_in_its_procedure():
    found = [copy for path in drivers() for copy in copies(path.relative_to(ROOT), path.read_text("utf-8"))]
    assert found == [OF_TWO_HOSTS]


PUT_BACK = """
from ansible_collections.berth.kvm.plugins.module_utils.conductor import gossip, lost_data, what_to_create
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import new_plan, prepare_round

def create(self, requests, seen):
    instances = what_to_create.sort_out(requests, seen, self.lost)
    lost_data.settle(instances, seen, self.lost, ())
    plan = new_plan("r1", instances, {}, 3, gossip.whereabouts(seen))
    prepare_round(plan, self.token)
"""
OF_A_MOVE = """
from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving, sides

def plan(self, seen, views, uuid, name):
    found = sides.find(uuid, name, views, {}, seen.verdicts, self.lost)
    sides.check(seen, uuid, name, found, self.lost)
    return moving.plan("move", "resize", uuid, name, found, None)
"""


OF_LOCATING = """
from ansible_collections.berth.kvm.plugins.module_utils.conductor import what_to_operate

def found(self, operation):
    return {name: what_to_operate.where(operation, self.seen, name, self.uuid(name), self.said()) for name in self.names}
"""


def test_a_run_of_a_history_that_takes_the_only_step_of_a_procedure_is_found():
    (copy,) = copies("tests/protocol/c.py", OF_LOCATING)
    assert "takes steps of locate.py itself: what_to_operate.where" in copy


OF_A_DELETE = """
from ..module_utils.conductor.procedures.operate import operate
from ..module_utils.conductor.procedures.steps import side_by_side

def act(self, names):
    carry_out(side_by_side({name: self.move_of(name) for name in names}))
    carry_out(operate("delete", names))
"""
OF_A_FLEET = """
from ansible_collections.berth.kvm.plugins.module_utils.conductor import locate

def delete(self):
    for host in locate.locate_to_delete(self.read(), "web1", WEB):
        self.hosts[host].delete()
"""


def test_an_action_that_orders_the_moves_of_a_delete_itself_is_found():
    (copy,) = copies("plugins/action/d.py", OF_A_DELETE)
    assert copy == "plugins/action/d.py: act has an order of its own: steps.side_by_side"


def test_a_fleet_of_tests_that_finds_the_hosts_itself_is_found():
    (copy,) = copies("tests/unit/e.py", OF_A_FLEET)
    assert copy == "tests/unit/e.py: delete has an order of its own: locate.locate_to_delete"


def test_a_copy_of_an_order_is_found():
    (create,) = [copy for copy in copies("a.py", PUT_BACK) if "plan_create.py" in copy]
    assert "lost_data.settle" in create and "plan.prepare_round" in create
    (move,) = copies("b.py", OF_A_MOVE)
    assert "plan_moves.py itself: moving.plan, sides.check, sides.find" in move
