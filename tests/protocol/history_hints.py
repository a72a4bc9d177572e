# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does word for word what an error says: the playbooks and commands that its hint names, in their order."""

from __future__ import annotations

import os
import re

PLAYBOOK = re.compile(r"berth\.kvm\.(\w+)((?: --limit \S+| -e \w+=\S+|(?: for) web\d+)*)")
LIMIT, EXTRA = re.compile(r"(?:--limit|for) (web\d+)"), re.compile(r"-e (\w+)=([\w.,]+)")
UNDEFINE = re.compile(r"on ([\w ,]+), as root: virsh shutdown (\S+); when it is off, virsh undefine")
ELSEWHERE = re.compile(r"move (\S+/instances/[0-9a-f-]{36}) elsewhere")
RECORD_OUT = re.compile(r"move record\.json below instances/(\S+) out of")
CHOSEN = "berth.kvm.keep_one", "berth_keep_on=HOST"


def follow(player, name, error, dice):
    """Follow the hint of an error about the instance ``name``."""
    hint = error.get("hint") or ""
    text = "%s. %s" % (error.get("message"), hint)
    if "kvm_host_accept_state_directory" in text:
        for machine in player.world.machines.values():
            if machine.on and not machine.dead:
                with player.world.on(machine, "accept"):
                    machine.accept_state()
    for hosts, uuid in UNDEFINE.findall(hint):
        undefine(player.world, hosts, uuid)
    for path in ELSEWHERE.findall(hint):
        os.rename(path, "%s.elsewhere.%d" % (path.replace("/instances/", "/"), dice.getrandbits(30)))
    for playbook, given in PLAYBOOK.findall(hint):
        run(player, playbook, name, given, hint, dice)


def undefine(world, hosts, uuid):
    for host, machine in world.machines.items():
        guest = machine.host.connection.domains.get(uuid)
        if host in hosts and guest:
            if guest.isActive():
                guest.destroy()
            if uuid in machine.host.connection.domains:
                guest.undefineFlags(0)


def run(player, playbook, name, given, hint, dice):
    options = dict(EXTRA.findall(given))
    named = LIMIT.search(given)
    names = [named.group(1)] if named else [name]
    lost = options.pop("berth_lost_hosts", None)
    lost = lost.split(",") if lost else player.world.dead()
    if playbook == "keep_one":
        stays = options.get("berth_keep_on") or player.kept_on.get(names[0])
        if stays in (None, "HOST"):
            stays = dice.choice(re.findall(r"that on (kvm\d)", hint) or list(player.world.inventory))
        options["berth_keep_on"] = player.kept_on[names[0]] = stays
    if playbook in ("create", "delete", "keep_one", "recover_record", "start", "stop", "recover"):
        player.play_run(playbook, names, lost, **options)
