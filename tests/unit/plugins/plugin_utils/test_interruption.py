# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible ends a run that gets a signal, whatever becomes of what we say about it. tests/unit/situations plays it."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from ansible_collections.berth.kvm.plugins.plugin_utils import acting


@pytest.mark.parametrize("error", [OSError(errno.EIO, "no terminal any more"), RuntimeError("reentrant call")])
def test_ansible_ends_the_run_though_nothing_can_be_said_any_more(monkeypatch, error):
    """It sends the signal on to the processes that work on hosts."""

    def cannot(_line):
        raise error

    ended = []
    monkeypatch.setattr(acting, "warn", cannot)
    acting._tell(lambda *what: ended.append(what), os.getpid(), signal.SIGTERM, None)
    assert ended == [(signal.SIGTERM, None)]
