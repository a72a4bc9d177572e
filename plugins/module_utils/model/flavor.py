# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A flavor: its fields, which are the size of an instance and what it asks of its host. Their sums are in
placement/requested.py.
"""

from __future__ import annotations

from .messages import Document


class Flavor:
    """{name, vcpus, memory_mb (MiB), root_gb, ephemeral_gb (GiB), swap (MiB), extra_specs {text: text}}.

    Other parts of the document are kept, and to_dict() returns them.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.name = document.get("name", "")
        self.vcpus = document["vcpus"]
        self.memory_mb = document["memory_mb"]
        self.root_gb = document.get("root_gb") or 0
        self.ephemeral_gb = document.get("ephemeral_gb") or 0
        self.swap = document.get("swap") or 0
        self.extra_specs = {key: str(value) for key, value in (document.get("extra_specs") or {}).items()}

    def to_dict(self) -> Document:
        return dict(self.document)
