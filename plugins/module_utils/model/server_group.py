# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server group: instances that should be on the same host or on different hosts."""

from __future__ import annotations

from .messages import Document


class ServerGroup:
    """{uuid, name, policy, rules {max_server_per_host}, members [instance uuid], hosts [host name]}."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.uuid = document.get("uuid") or document.get("name")
        self.name = document.get("name", "")
        self.policy = document.get("policy")
        self.rules = document.get("rules") or {}
        self.members = set(document.get("members") or ())
        self.hosts = set(document.get("hosts") or ())

    @property
    def max_server_per_host(self) -> int:
        return int(self.rules.get("max_server_per_host", 1))

    def to_dict(self) -> Document:
        return dict(self.document, members=sorted(self.members))
