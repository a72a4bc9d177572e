# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vGPUs: the mediated devices into which a GPU of the host (the parent) is divided. Each parent offers one type and has
its own resource class, as it is a resource provider in Nova: the vGPUs of one request group come from one parent.
"""

from __future__ import annotations

import re
import uuid
from typing import Dict, FrozenSet, List

from .messages import Document

VGPU = "VGPU"
MOST = 16  # of one instance
DEVICES_LIMIT = 10000  # of one kind that a host tells of


def class_of(parent: str) -> str:
    """The resource class of the vGPUs of a parent, such as VGPU:0000:84:00.0."""
    return "%s:%s" % (VGPU, parent)


def trait_of(kind: str) -> str:
    """The trait of a type: CUSTOM_NVIDIA_35 of nvidia-35."""
    return "CUSTOM_" + re.sub("[^A-Z0-9]", "_", kind.upper())


def own_uuid(instance: str, at: int) -> str:
    """Return the uuid of the mediated device for vGPU number ``at``: the same on every host and after each boot."""
    return str(uuid.uuid5(uuid.UUID(instance), "vgpu/%d" % at))


def traits(doc: Document) -> Dict[str, FrozenSet[str]]:
    """{resource class: its traits} of the host's parents."""
    return {class_of(each["parent"]): frozenset((trait_of(each["type"]),)) for each in doc.get("vgpus") or ()}


def totals(doc: Document) -> Dict[str, int]:
    """{resource class: how many there are}"""
    return {class_of(each["parent"]): each["total"] for each in doc.get("vgpus") or ()}


def used(doc: Document) -> Dict[str, int]:
    """{resource class: how many are claimed, or made by others}"""
    return {class_of(each["parent"]): each["used"] for each in doc.get("vgpus") or ()}


def bound(doc: Document, amounts: Dict[str, int], instance: str) -> List[Document]:
    """Return the vGPUs [{parent, type, uuid}] for these amounts of an allocation."""
    given = [each for each in doc.get("vgpus") or () for _each in range(amounts.get(class_of(each["parent"]), 0))]
    return [
        {"parent": each["parent"], "type": each["type"], "uuid": own_uuid(instance, at)}
        for at, each in enumerate(given)
    ]
