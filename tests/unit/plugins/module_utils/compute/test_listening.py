# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Libvirt listens for other hosts on the migration address alone where the host's settings say so; what else is in libvirt's
configuration stays as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import listening, preparation, settings, system
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import transfer
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

OTHERS = b'# ours\nlisten_addr = "192.0.2.9"\nauth_tls = "none"\n# \xff\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    """place(manager, modular): the path of the file, with that service manager and kind of daemons."""
    monkeypatch.setattr(listening, "UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(listening, "CONFIGURATION", str(tmp_path / "libvirt"))

    monkeypatch.setattr(listening, "TABLES", (str(tmp_path / "tcp"), str(tmp_path / "tcp6")))
    monkeypatch.setattr(listening, "MODULAR", str(tmp_path / "virtqemud-sock"))

    def make(manager="other", modular=False):
        monkeypatch.setattr(system, "service_manager", lambda: manager)
        if modular:
            Path(listening.MODULAR).touch()
        return Path(listening.path())

    return make


def test_without_systemd_it_is_the_first_line_of_libvirts_configuration_and_the_rest_stays(place):
    path = place()
    path.parent.mkdir()
    path.write_bytes(OTHERS)
    path.chmod(0o600)
    for address in ("192.0.2.1", "2001:db8::1"):
        assert listening.differs(address)
        listening.settle(address)
        first, _newline, rest = path.read_bytes().partition(b"\n")
        assert first.startswith(b'listen_addr = "%s"  # berth.kvm' % address.encode()) and rest == OTHERS
        assert not listening.differs(address) and listening.differs(None)
    listening.settle(None)
    assert path.read_bytes() == OTHERS and stat.S_IMODE(os.stat(path).st_mode) == 0o600 and not listening.differs(None)


def test_a_configuration_that_was_not_there_is_not_there_afterwards(place):
    path = place()
    listening.settle("192.0.2.1")
    assert path.is_file()
    listening.settle(None)
    assert not path.exists()
    listening.settle(None)


@pytest.mark.follows("start_libvirt")
def test_a_libvirt_whose_address_is_gone_starts_without_the_line_that_the_hint_names(place):
    """libvirt ends where it cannot bind, and prepare_hosts, which would take the line out, needs libvirt."""
    path = place()
    listening.settle("192.0.2.77")
    assert "line with listen_addr from /etc/libvirt/%s" % path.name in host_hints.start_libvirt()
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "listen_addr" not in line))
    assert not path.read_text() and listening.differs("192.0.2.77") and not listening.differs(None)


@pytest.mark.parametrize(
    "modular, unit",
    [(False, "libvirtd-tls.socket.d"), (True, "virtproxyd-tls.socket.d")],
)
@pytest.mark.parametrize("address, stream", [("192.0.2.1", "192.0.2.1:16514"), ("2001:db8::1", "[2001:db8::1]:16514")])
def test_under_systemd_it_is_a_drop_in_of_the_socket_that_takes_all_other_addresses_away(
    place, modular, unit, address, stream
):
    """Of the daemons that run: the other unit would stop them, whatever the distribution's default is."""
    path = place("systemd", modular)
    assert path.parent.name == unit and not listening.differs(None)
    listening.settle(address)
    text = path.read_text()
    assert text.endswith("[Socket]\nListenStream=\nListenStream=%s\nFreeBind=yes\n" % stream)
    assert not listening.differs(address)
    path.write_text(text.replace("FreeBind=yes\n", ""))
    assert listening.differs(address), "somebody edited it"
    listening.settle(None)
    assert not path.exists()


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue\n"
ROW = "   0: %s:%s 00000000:0000 %s 00000000:00000000\n"


@pytest.mark.parametrize(
    "table, row, is_it",
    [
        ("tcp", ("00000000", "4082", "0A"), True),
        ("tcp6", ("0" * 32, "4082", "0A"), True),
        ("tcp", ("010200C0", "4082", "0A"), False),
        ("tcp", ("00000000", "4083", "0A"), False),
        ("tcp", ("00000000", "4082", "01"), False),
    ],
    ids=["open on all", "and of version 6", "open on one", "another port", "a connection"],
)
def test_a_port_that_is_still_open_on_all_addresses_differs_from_one_address(place, tmp_path, table, row, is_it):
    """The run that wrote the drop-in ended before the restart, and then libvirt ended by itself, as it does when idle."""
    place("systemd")
    listening.settle("192.0.2.1")
    (tmp_path / table).write_text(HEAD + ROW % row)
    assert listening.differs("192.0.2.1") is is_it
    listening.settle(None)
    assert not listening.differs(None), "somebody's own drop-in may have it so"


def wanted(**more):
    return settings.parse({"migration_address_only": True, **more})


CONNECTION = SimpleNamespace(getHostname=lambda: "kvm1")


def test_an_address_that_the_host_does_not_have_is_refused_with_what_to_do(place):
    place()
    with pytest.raises(HostNotPrepared, match="cannot listen on the migration address 192.0.2.77") as caught:
        preparation._listens_on(CONNECTION, wanted(migration_address="192.0.2.77"))
    assert caught.value.hint == host_hints.correct_migration_address("kvm1")
    assert preparation._listens_on(CONNECTION, wanted(migration_address="127.0.0.1")) == "127.0.0.1"


def test_a_host_whose_name_has_no_address_is_told_so_without_none():
    with pytest.raises(TransferFailed, match="kvm1 cannot receive disks at any address, .* its name has no address"):
        transfer.check_address(None, "kvm1")


def test_a_host_that_was_not_asked_for_it_listens_on_all_addresses():
    assert preparation._listens_on(CONNECTION, settings.parse({"migration_address": "192.0.2.77"})) is None
    assert "migration_address_only" not in settings.parse({}).to_dict(), "earlier versions do not know it"
