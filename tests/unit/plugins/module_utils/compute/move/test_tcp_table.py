# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import watchdog

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
STUCK = (
    "   4: 0BB8E70A:B498 0CB8E70A:C040 %s 00001048:00000000 01:00000352 0000000A     0        0 17 2 0 51200 20 4 0\n"
)


@pytest.mark.parametrize("family, address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_connection_is_found_by_the_address_and_port_of_its_other_end(family, address):
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            found = [each for each in watchdog.established() if (each.address, each.port) == (address, port)]
            assert found == [(client.getsockname()[1], address, port, 0)]


@pytest.mark.parametrize("state, repeated", [("01", [10]), ("06", [])], ids=["established", "closed"])
def test_how_often_something_was_sent_again_without_an_answer_is_read_of_what_is_established(tmp_path, state, repeated):
    (tmp_path / "tcp").write_text(HEAD + STUCK % state)
    assert [each.repeated for each in watchdog.established((str(tmp_path / "tcp"), str(tmp_path / "none")))] == repeated
