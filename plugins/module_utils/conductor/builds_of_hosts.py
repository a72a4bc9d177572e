# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each host builds in one call, and which images the controller sends to it first, so that it builds alone."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..model import volumes
from ..model.messages import Document
from .plan import BUILDING, Instance, Plan, host_of


def builds_of_hosts(plan: Plan) -> Dict[str, Dict[str, Instance]]:
    """Host -> inventory name -> instance, for those that one call of the host can build: their claims stand, and the
    host fetches their images itself."""
    found: Dict[str, Dict[str, Instance]] = {}
    for name in plan["build"]:
        instance = plan["instances"][name]
        if instance["state"] == BUILDING and not instance.get("take_over") and not to_upload(instance["spec"]):
            found.setdefault(host_of(instance), {})[name] = instance
    return found


def to_upload(spec: Mapping[str, Any]) -> List[Tuple[Document, int]]:
    """[(image, GiB of the disk made from it)]: the images of a new request that the controller sends to the host."""
    root = [(spec["image"], volumes.root_gb(spec))] if spec["image"].get("upload") else []
    made_from = [(entry.get("image") or {}, entry["size_gb"]) for entry in spec.get("volumes") or ()]
    return root + [(image, size_gb) for image, size_gb in made_from if image.get("upload")]
