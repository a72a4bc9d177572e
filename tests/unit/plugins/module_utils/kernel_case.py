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


class Switch:
    """Open vSwitch: what ovs-vsctl 3.1 prints and refuses, as seen with its userspace datapath. ``ports``: tap -> [bridge, tag]."""

    def __init__(self, *bridges, **ports):
        self.bridges, self.ports, self.ids = bridges, ports, {}

    def __call__(self, arguments):
        before, said = {tap: list(port) for tap, port in self.ports.items()}, ""
        try:
            for words in _split(arguments[1:]):
                said = self._one(words)
        except packet_path.PacketRulesNotRead:
            self.ports = before  # one transaction
            raise
        return said

    def _one(self, words):
        if words[0] == "list-br":
            return "".join(name + "\n" for name in self.bridges)
        if words[0] == "list-ports":
            return "".join(tap + "\n" for tap, (bridge, _tag) in self.ports.items() if bridge == words[1])
        if words[0] == "get":
            return "%s\n" % (self.ports[words[2]][1] or "[]")
        if words[0] == "del-port":
            self.ports.pop(words[1], None)
        elif words[0] == "add-port":
            if self.ports.setdefault(words[2], [words[1], None])[0] != words[1]:
                raise packet_path.PacketRulesNotRead("%s is actually attached to another bridge" % words[2])
        elif words[:2] == ["set", "port"]:
            self.ports[words[2]][1] = int(words[3].partition("=")[2])
        elif words[:2] == ["clear", "port"]:
            self.ports[words[2]][1] = None
        else:
            self.ids[words[2]] = words[3:]
        return ""


def _split(words):
    """The commands of one call, without their options."""
    found = [[]]
    for word in words:
        if word == "--":
            found.append([])
        elif not word.startswith("--"):
            found[-1].append(word)
    return [command for command in found if command]


class Kernel:
    """``says``: what each program prints, or a function of its words; ``called``: what the sysctls are."""

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
        said = self.says[arguments[0]]
        return said(arguments) if callable(said) else said

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

    def plug(self, name, bridge):
        """A bond becomes a port of the bridge: its uplink."""
        link = {"ifname": name, "flags": ["UP"], "master": bridge, "linkinfo": {"info_kind": "bond"}}
        self.says["ip"] = json.dumps([*json.loads(self.says["ip"]), link])

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
