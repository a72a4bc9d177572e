# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request to placement for one instance, or for several alike: Nova's RequestSpec."""

from __future__ import annotations

import copy
import json
from typing import Any, Dict, List, Optional

from . import adopted, data_disks, rescues, snapshots, volumes
from .errors import InvalidInput
from .image import Image
from .messages import Document
from .resources import InstanceTopology


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


SCHEMA = 1


def hint_lists(hints: Optional[Document]) -> Dict[str, List[Any]]:
    """Scheduler hints as Nova keeps them: every value is a list."""
    return {
        name: list(value)
        if isinstance(value, (list, tuple))
        else [value if isinstance(value, str) else json.dumps(value)]
        for name, value in (hints or {}).items()
    }


class RequestSpec:
    """One request. Attributes have Nova's names; sizes are MiB (memory_mb, swap) and GiB (root_gb, ephemeral_gb).

    ``instance_uuids`` has one uuid per instance of a multi-create; ``instance_uuid`` is the one being placed.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        try:
            self.flavor = Flavor(document["flavor"])
        except (KeyError, TypeError, AttributeError):
            raise InvalidInput("flavor", document.get("flavor"), "an object with at least vcpus and memory_mb")
        image = document.get("image", {})
        self.image = None if image is None else Image(image)
        group = document.get("group")
        self.instance_group = ServerGroup(group) if isinstance(group, dict) else None
        uuids = document.get("instance_uuids") or ([document["uuid"]] if document.get("uuid") else [])
        self.num_instances = int(document.get("num_instances") or len(uuids) or 1)
        if self.num_instances < 1 or len(uuids) not in (0, 1, self.num_instances):
            raise InvalidInput("num_instances", self.num_instances, "at least 1 and one per uuid in instance_uuids")
        if len(uuids) < self.num_instances:
            uuids = ["%s-%d" % (uuids[0] if uuids else "instance", number + 1) for number in range(self.num_instances)]
        self.instance_uuids = list(uuids)
        self.instance_uuid = self.instance_uuids[0]
        self.name = document.get("name") or self.instance_uuid
        self.project_id = document.get("project_id") or "default"
        self.availability_zone = document.get("availability_zone")
        self.ignore_hosts = document.get("ignore_hosts") or []
        self.force_hosts = document.get("force_hosts") or []
        self.force_nodes = document.get("force_nodes") or []
        destination = document.get("requested_destination")
        self.requested_destination = {"host": destination} if isinstance(destination, str) else destination or None
        self.scheduler_hints = hint_lists(document.get("scheduler_hints"))
        self.is_bfv = bool(document.get("is_bfv"))
        self.network_metadata = document.get("network_metadata")
        self.networks = document.get("networks") or []
        self.pool = document.get("pool")
        self.numa_topology = copy.deepcopy(document.get("numa_topology"))
        self.pci_requests = copy.deepcopy(document.get("pci_requests"))
        # The InstanceTopology of numa_topology; placement sets it.
        self.topology: Optional[InstanceTopology] = None
        self.batch_id = document.get("batch_id")

    vcpus = property(lambda self: self.flavor.vcpus)
    memory_mb = property(lambda self: self.flavor.memory_mb)
    root_gb = property(lambda self: self.flavor.root_gb)
    ephemeral_gb = property(lambda self: self.flavor.ephemeral_gb)
    swap = property(lambda self: self.flavor.swap)

    @property
    def data_gb(self) -> int:
        """GiB of its data disks, snapshots and rescue, of volumes that are made for it, and of an adopted one's more disks."""
        parts = (data_disks.total_gb, snapshots.total_gb, rescues.total_gb, volumes.new_gb, adopted.more_gb)
        return sum(of(self.document) for of in parts)

    @property
    def local_gb(self) -> int:
        """GiB of its disks without swap."""
        return self.root_gb + self.ephemeral_gb + self.data_gb

    @property
    def image_props(self) -> Document:
        return self.image.props if self.image else {}

    @property
    def is_rebuild(self) -> bool:
        return self.scheduler_hints.get("_nova_check_type") == ["rebuild"]

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """Return a hint: the item itself if its list has exactly one item, else the list."""
        value = self.scheduler_hints.get(name, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    @classmethod
    def from_dict(cls, document: Any) -> RequestSpec:
        if not isinstance(document, dict):
            raise InvalidInput("request", document, "an object with a flavor")
        if isinstance(document.get("schema"), int) and document["schema"] > SCHEMA:
            raise InvalidInput(
                "request.schema", document["schema"], "at most %d, the schema this version knows" % SCHEMA
            )
        return cls(document)

    def to_dict(self) -> Document:
        """Return the document it was read from, with unknown fields, hints as lists and the schema number."""
        document = copy.deepcopy(self.document)
        document["schema"] = SCHEMA
        if "scheduler_hints" in document:
            document["scheduler_hints"] = hint_lists(document["scheduler_hints"])
        for name in ("numa_topology", "pci_requests"):
            if getattr(self, name) is not None:
                document[name] = copy.deepcopy(getattr(self, name))
        return document
