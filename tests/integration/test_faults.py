# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sample of the kill sweep in tests/faults/run.py: one fault of each kind, each in another operation (I1-I12)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))

import cases  # noqa: E402
from chain import Chain  # noqa: E402
from operations import OPERATIONS, Fault  # noqa: E402


@pytest.fixture(scope="module")
def chain(prepared_lab, image, tmp_path_factory):
    """One instance for all faults: where one ends the next begins."""
    faults = Chain(cases.Case(prepared_lab, image, tmp_path_factory.mktemp("faults")))
    with faults.watcher:
        yield faults
    faults.wipe()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("resize:controller:Copy the disks.presend+1200", marks=pytest.mark.slow),
        "confirm:crash-source:2.purge",
        "live:libvirtd-destination:Hand the running guest over.migrate_live",
        "resize_here:cut-source:3.freeze",
        "grow_here:controller:2.grow+900",
    ],
)
def test_one_re_run_converges_after(chain, name):
    fault = Fault.called(name)
    chain.bring(OPERATIONS[fault.operation].begin)
    try:
        assert chain.suffer(fault) == "converged"
    except AssertionError:
        chain.state = None  # the next begins with a new instance
        raise
