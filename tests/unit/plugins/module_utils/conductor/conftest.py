# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of three hosts, whose records are files: see fleet_case.py."""

from __future__ import annotations

import os

import pytest
from fleet_case import Fleet


@pytest.fixture(autouse=True)
def no_disk_is_waited_for(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _fd: None)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)
