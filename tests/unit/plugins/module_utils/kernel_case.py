# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's kernel, by what its programs print about packets: recorded on a Debian 12."""

from __future__ import annotations

import json
import pathlib

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import packet_path

RECORDED = pathlib.Path(__file__).parent / "compute" / "data" / "packets"
CALLS = ("iptables", "ip6tables")


class Kernel:
    """``says``: what each program prints; ``called``: what the sysctls are."""

    def __init__(self, directory):
        self.says = {name: (RECORDED / (name + ".txt")).read_text() for name in ("iptables-save", "ip6tables-save")}
        self.says["ebtables-save"] = (RECORDED / "ebtables-save.txt").read_text()
        self.says["ip"] = (RECORDED / "links.json").read_text()
        self.ran, self.directory = [], directory
        self.call("1")

    def call(self, value):
        for program in packet_path.FAMILIES:
            (self.directory / program).write_text(value)

    def run(self, arguments, **_limits):
        self.ran.append(arguments[0])
        if arguments[:4] == ["ip", "link", "set", "dev"]:
            self.link(arguments[4], **({"master": arguments[6]} if arguments[5] == "master" else {}))
            return ""
        if arguments[0] not in self.says:
            raise packet_path.PacketRulesNotRead("%s is not installed" % arguments[0])
        return self.says[arguments[0]]

    def insert(self, program, *rules):
        """iptables -I, and a new policy."""
        text = self.says[program]
        for each in rules:
            first = "\n-A " if each.startswith("-A") else each.rpartition(" ")[0]
            text = text.replace(first, "\n%s%s" % (each, first) if each.startswith("-A") else each, 1)
        self.says[program] = text

    def drop(self, program, *words):
        """The lines with one of the words are gone."""
        lines = self.says[program].splitlines()
        self.says[program] = "\n".join(line for line in lines if not any(word in line for word in words)) + "\n"

    def link(self, name, **changes):
        links = json.loads(self.says["ip"])
        (link,) = (link for link in links if link["ifname"] == name)
        slave = link["linkinfo"].get("info_slave_data", {})
        slave.update({key: changes.pop(key) for key in ("state", "isolated") if key in changes})
        link.update(changes)
        self.says["ip"] = json.dumps(links)


def kernel(monkeypatch, directory):
    made = Kernel(directory)
    monkeypatch.setattr(packet_path, "run", made.run)
    monkeypatch.setattr(packet_path, "run", made.run)
    monkeypatch.setattr(packet_path, "BRIDGED", str(directory / "%s"))
    monkeypatch.setattr(packet_path.shutil, "which", lambda name, path: name if name in made.says else None)
    monkeypatch.setattr(packet_path, "LEGACY", {name: str(directory / "none") for name in CALLS})
    return made
