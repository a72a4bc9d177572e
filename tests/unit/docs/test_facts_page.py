# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module host_facts documents is what a host may send: a row of model/host_document.py for each fact, whose check takes the
sample."""

from __future__ import annotations

import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.host_document import FACTS, MAYBE
from ansible_collections.berth.kvm.plugins.module_utils.model.shape import Fault
from ansible_collections.berth.kvm.plugins.modules import host_facts


def faults(documented, rows):
    """What the documentation of the facts lacks, has beside the rows, or shows as no host may send it."""
    found = ["%s is not documented" % name for name in rows if name not in documented]
    found += ["%s is documented, and no fact" % name for name in documented if name not in rows]
    for name in sorted(documented.keys() & rows.keys()):
        try:
            rows[name](documented[name]["sample"])
        except Fault as fault:
            found.append("the sample of %s: %s" % (name, fault.rule))
    return found


def documented_facts():
    returned = yaml.safe_load(host_facts.RETURN)["ansible_facts"]["contains"]["berth_host"]
    return returned["contains"]


def test_each_fact_is_documented_with_a_sample_that_its_check_takes():
    assert faults(documented_facts(), {**FACTS, **MAYBE}) == []


def test_a_fact_that_has_a_row_alone_is_told():
    made_up = {**FACTS, **MAYBE, "tide": FACTS["vcpus"]}
    assert faults(documented_facts(), made_up) == ["tide is not documented"]


def test_a_sample_that_no_host_may_send_is_told():
    wrong = {**documented_facts(), "vcpus": {"sample": "many"}}
    (told,) = faults(wrong, {**FACTS, **MAYBE})
    assert told.startswith("the sample of vcpus: ")
