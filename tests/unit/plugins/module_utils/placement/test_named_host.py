# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request that names a host which cannot be used, for example because it does not answer."""

from __future__ import annotations

import types

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.placement import prefilters


def test_the_host_is_named_and_no_node(monkeypatch):
    monkeypatch.setattr(prefilters, "REQUEST_FILTERS", ())
    monkeypatch.setattr(prefilters, "Query", lambda *_arguments: None)
    spec = types.SimpleNamespace(requested_destination={"host": "kvm3"}, force_hosts=[], force_nodes=[])
    with pytest.raises(BerthError) as caught:
        prefilters.query_for(spec, {}, [], [])
    assert str(caught.value) == "kvm3, which the request names, is not among the hosts that can be used"
