# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints for an instance of which two hosts have a copy: see hints.py."""

from __future__ import annotations

import shlex
from typing import Optional, Sequence


def find_the_right_copy(name: str, hosts: Sequence[str]) -> str:
    """Two hosts say that they own the instance."""
    return (
        "Find out which copy is right, that on %s: berth.kvm.show --limit %s -v has the history of each. Then run "
        "berth.kvm.keep_one --limit %s -e berth_keep_on=HOST with the host whose copy stays: the other is stopped and set aside "
        "with its disks" % (" or that on ".join(hosts), name, name)
    )


def keep_copy_with_disks(name: str, owner: Optional[str]) -> str:
    """On shared storage two copies of an instance have the same disks, which belong to the host of the other copy."""
    return (
        "Run berth.kvm.keep_one --limit %s -e berth_keep_on=HOST with the host whose uuid is %s: only its copy can stay"
        % (name, owner or "that one")
    )


def keep_whole_copy(name: str, host: str, missing: Sequence[str]) -> str:
    """The copy that was to stay has a record and no disks, as after an old state directory was restored. If all copies lack
    some, one has to be kept before the instance can be deleted, or its disks restored."""
    directories = shlex.join(sorted({path.rpartition("/")[0] for path in missing}))
    return (
        "Run berth.kvm.keep_one --limit %s -e berth_keep_on=HOST with the host whose copy has its disks. If the disks on %s are only "
        "not mounted, mount them first and run the same again. If no copy has all its disks any more, put these back from a "
        "backup, or, if they are lost for good, an empty file for each, as root on %s: mkdir -p -m 711 -- %s && touch -- %s; then "
        "run the same again" % (name, host, host, directories, shlex.join(missing))
    )


def keep_one_confirmed(name: str, host: str, others: Sequence[str]) -> str:
    """Both copies of an instance run, and one was named as the copy that stays."""
    return (
        "Log in to both guests and compare them. Then run berth.kvm.keep_one --limit %s -e berth_keep_on=%s -e "
        "berth_keep_on_confirmed=true: the guest on %s is stopped, and its disks are set aside"
        % (name, host, ", ".join(others))
    )


def keep_what_moves(name: str, host: str) -> str:
    """Of two copies of an instance the later one is in a move, and the other was named as the copy that stays."""
    return (
        "The copy on %s is the later one, and only a copy at rest is set aside. Run berth.kvm.keep_one --limit %s -e "
        "berth_keep_on=%s: the other copy is set aside with its disks. Then confirm or revert the move"
        % (host, name, host)
    )


def keep_one_again(name: str) -> str:
    """A run that set this copy aside was interrupted."""
    return (
        "Run berth.kvm.keep_one --limit %s again, with the same berth_keep_on: it finishes what it began. If the host of that "
        "copy is lost for good, name this host with berth_keep_on and that one with berth_lost_hosts: this copy comes back"
        % name
    )


def keep_the_other(name: str, host: str, others: Sequence[str]) -> str:
    """The copy that was named to stay is one that an interrupted run was setting aside or deleting."""
    return (
        "An earlier run did not finish with that copy. Run berth.kvm.keep_one --limit %s -e berth_keep_on=%s: the copy on %s is "
        "set aside with what it has" % (name, " or ".join(others), host)
    )


def keep_where_set_aside() -> str:
    """A copy was to come back on a host where none was set aside."""
    return "Name with berth_keep_on the host where it was set aside: its /var/lib/berth/set-aside.json lists it"


def put_disks_back(directory: str) -> str:
    """A copy that was set aside is to come back, and some of its disks are not there any more."""
    return (
        "Put these files back into %s, from where they were moved or from a backup, and run the same again" % directory
    )


def one_keeps_the_address(name: str) -> str:
    """The record of an instance is to come back, and another has one of its addresses by now."""
    return (
        "An instance keeps its address for as long as it exists. To bring %s back, save what is on the other, run "
        "berth.kvm.delete for it, and then run the same again. A guest that berth does not manage gets another address "
        "instead. Until then %s stays as it is" % (name, name)
    )


def lock_again(name: str) -> str:
    """The record of an instance came back from a copy that does not say whether it was locked."""
    return "if it was locked, run berth.kvm.lock --limit %s: the lock was lost with the record" % name
