# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does word for word what an error says: the playbooks and commands that its hint names, in their order."""

from __future__ import annotations

import os
import re

PLAYBOOK = re.compile(r"berth\.kvm\.(\w+)((?: --limit \S+| -e \w+=\S+|(?: for) (?:web|old)\d+)*)")
LIMIT, EXTRA = re.compile(r"(?:--limit|for) ((?:web|old)\d+)"), re.compile(r"-e (\w+)=([\w.,]+)")
UNDEFINE = re.compile(r"on ([\w ,]+), as root: virsh shutdown (\S+); when it is off, virsh undefine")
SHUT_DOWN = re.compile(r"as root on ([\w ]+): virsh shutdown (\S+); when it is off, run")
ELSEWHERE = re.compile(r"move (\S+/instances/[0-9a-f-]{36}) elsewhere")
RECORD_OUT = re.compile(r"(kvm\d) was given up as lost and is back, move record\.json below instances/(\S+) out")
BEHIND = re.compile(
    r"record\.json below instances/(\S+) in the state directory of (kvm\d) from .* there is none, move that file out"
)
WHICH_RECORD = re.compile(
    r"which record is old or wrong, that on (kvm\d(?: or that on kvm\d)*)\..* below instances/(\S+) out"
)
SUPERSEDED = re.compile(r"nobody needs the copy on (kvm\d) with what was written there last: -e berth_lost_hosts=\1")
LOST = re.compile(r"berth_lost_hosts=([\w,]+)")
GONE_FOR_GOOD = re.compile(
    r"Bring ([\w, ]+) back and run again\. If it is switched off for good .* -e berth_lost_hosts=([\w,]+)$"
)
CALLED = re.compile(r"If that is the one: call it (\S+) in the inventory and set berth_uuid: (\S+) for it")
ANEW = re.compile(r"To make (\S+) anew: take its berth_uuid out of the inventory")
IF_IT_IS_THAT = re.compile(r"If it is that on (kvm\d): ((?:(?!If it is that on ).)*)")
MOVES = ("confirm_resize", "revert_resize", "resize", "cold_migrate")


def follow(player, name, error, dice, more=3):
    """Follow the hint of an error about the instance ``name``, and that of what is refused then."""
    hint = right_copy(player.world, name, error.get("hint") or "")
    text = "%s. %s" % (error.get("message"), hint)
    if "berth_host_accept_state_directory" in text:
        for machine in player.world.machines.values():
            if machine.on and not machine.dead:
                with player.world.on(machine, "accept"):
                    machine.prepare()
    for called, uuid in CALLED.findall(hint):
        player.call(uuid, called)
    for called in ANEW.findall(hint):
        player.world.entries.forget(called)
    for hosts, uuid in UNDEFINE.findall(hint):
        undefine(player.world, hosts, uuid)
    for hosts, uuid in SHUT_DOWN.findall(hint):
        shut_down(player.world, hosts, uuid)
    for path in ELSEWHERE.findall(hint):
        os.rename(path, "%s.elsewhere.%d" % (path.replace("/instances/", "/"), dice.getrandbits(30)))
    old = [(outdated(player.world, hosts, uuid), uuid) for hosts, uuid in WHICH_RECORD.findall(hint)]
    behind = [(host, uuid) for uuid, host in BEHIND.findall(hint)]
    for host, uuid in [*RECORD_OUT.findall(hint), *behind, *old]:
        record = os.path.join(player.world.machines[host].host.store.state_dir, "instances", uuid, "record.json")
        if os.path.exists(record):
            os.rename(record, "%s/../../../old-record-%d" % (os.path.dirname(record), dice.getrandbits(30)))
    for host in SUPERSEDED.findall(hint):
        player.world.gives_up_copy(name, host)
        player.play_run("confirm_resize", [name], [host])
    player.named_lost.update(host for hosts in LOST.findall(text) for host in hosts.split(",") if is_dead(player, host))
    for silent, lost in GONE_FOR_GOOD.findall(hint):
        if all(is_dead(player, host) for host in silent.split(", ")) and name in player.last:
            playbook, options = player.last[name]
            errors = player.play_run(playbook, [name], lost.split(","), **options)
            if more and name in errors:
                follow(player, name, errors[name], dice, more - 1)
    for playbook, given in PLAYBOOK.findall(hint):
        errors = run(player, playbook, name, given, hint, dice)
        if more and name in errors:
            follow(player, name, errors[name], dice, more - 1)


def is_dead(player, host):
    return host in player.world.machines and player.world.machines[host].dead


def right_copy(world, name, hint):
    """Of a hint that says what to do for each copy that may be right, what it says for the one with the newest content."""
    cases = dict(IF_IT_IS_THAT.findall(hint))
    if not cases:
        return hint
    return cases[max(cases, key=lambda host: newest(world, world.machines[host], world.uuid(name)))]


def outdated(world, said, uuid):
    """Of the hosts that contradict each other, the one with the oldest record among those that a person knows to be outdated."""
    records = {host: world.machines[host].host.store.read(uuid) for host in said.split(" or that on ")}
    known = [host for host in records if host in world.outdated] or list(records)
    return min(known, key=lambda host: list(records[host].generation))


def undefine(world, said, uuid):
    """``said``: on which hosts; "each of A and B but the one whose copy is right" spares the one with the newest content."""
    hosts = [host for host in world.machines if host in said]
    if "whose copy is right" in said:
        hosts.remove(max(hosts, key=lambda host: newest(world, world.machines[host], uuid)))
    for host in hosts:
        machine = world.machines[host]
        guest = machine.host.connection.domains.get(uuid)
        if guest:
            if guest.isActive():
                guest.destroy()
            if uuid in machine.host.connection.domains:
                guest.undefineFlags(0)


# The operations whose playbooks have other names.
OPERATIONS = {"keep_one_copy": "keep_one", "restore_record": "recover_record", "start_after_outage": "recover"}


def shut_down(world, said, uuid):
    for machine in [machine for host, machine in world.machines.items() if host in said]:
        guest = machine.host.connection.domains.get(uuid)
        if guest and guest.isActive():
            guest.destroy()


def newest(world, machine, uuid):
    return max((counter for name, counter in machine.disks().items() if world.of_disk.get(name) == uuid), default=-1)


FOLLOWED = (
    "create", "delete", "keep_one", "recover_record", "start", "stop", "recover", "unpause", "resume", "unrescue", "reboot",
    "snapshot", "revert_snapshot", "delete_snapshot", "shelve", "unshelve", "audit", *MOVES
)  # fmt: skip


def run(player, playbook, name, given, hint, dice):
    playbook = OPERATIONS.get(playbook, playbook)
    options = {option: value.rstrip(".,") for option, value in EXTRA.findall(given)}
    named = LIMIT.search(given)
    names = [named.group(1)] if named else [name]
    lost = options.pop("berth_lost_hosts", None)
    lost = lost.split(",") if lost else player.lost()
    if playbook == "keep_one":
        stays = options.get("berth_keep_on") or player.kept_on.get(names[0])
        if stays in (None, "HOST"):
            stays = dice.choice(re.findall(r"that on (kvm\d)", hint) or list(player.world.inventory))
        options["berth_keep_on"] = player.kept_on[names[0]] = stays
    if playbook in FOLLOWED:
        return player.play_run(playbook, names, lost, **options)
    return {}
