# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the members of the registry, apart from those that each KVM host is sent. See hints.py."""

from __future__ import annotations


def change_members() -> str:
    """The inventory names other members than the registry has."""
    return (
        "To change them: berth.kvm.restore_registry with the newest backup and the new members in group berth_registry_hosts. "
        "Otherwise put the old ones back into that group"
    )


def install_etcd() -> str:
    """A machine that is to be a member has no etcd."""
    return "Install etcd-server and etcd-client, or run berth.kvm.prepare_registry with berth_registry_packages=true"


def start_members() -> str:
    """No majority of the members answers after they were set up."""
    return (
        "On each member: journalctl -u berth-registry says why it does not answer. The members have to reach each other at port 2380 "
        "and the controller them at 2379. Then run it again"
    )


def upgrade_members() -> str:
    """The members run different versions of etcd."""
    return "Run berth.kvm.prepare_registry -e berth_registry_upgrade=true: it restarts one member after the other"


def renew_members() -> str:
    """The certificate of a member ends soon."""
    return "Run berth.kvm.prepare_registry, which renews it"


def give_more_space() -> str:
    """The registry is full, or nearly."""
    return "Set berth_registry_quota_gb to more, up to 64, and run berth.kvm.prepare_registry"
