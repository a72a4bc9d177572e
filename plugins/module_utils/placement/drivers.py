# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two drivers for comparison: chance takes a random host that is up, fake the first one; both still claim."""

from __future__ import annotations

from .filters.state import ComputeFilter


def run_simple(pipeline, spec, explain):
    """Run one request with no filter but ComputeFilter and no weigher. Which host comes first: see tie_break.drawn()."""
    before = pipeline.filters, pipeline.weighers
    pipeline.filters, pipeline.weighers = [ComputeFilter(pipeline.options)], []
    try:
        return pipeline.run(spec, explain)
    finally:
        pipeline.filters, pipeline.weighers = before
