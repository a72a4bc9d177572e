# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image that was made of the root disk of an instance: {name, path, checksum, bytes, min_disk (GiB), min_ram (MiB), properties,
kernel, initrd, frozen}."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, Mapping

from . import adopted, clone_hints
from .errors import InvalidInput

OPERATION = "image_from_instance"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_NAME = re.compile(NAME + r"\Z", re.ASCII)
RULE = "a name of letters, digits, '.', '_' and '-' that begins with a letter or digit, at most 100 long"


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput("berth_new_image", name, RULE, hint=clone_hints.name_image())
    return name


def of_adopted(spec: Mapping[str, Any]) -> Dict[str, str]:
    """The properties with which guests made of the first disk of an adopted instance find what its system knows."""
    found = adopted.of(spec)
    if not found:
        return {}
    root, first = adopted.root_of(found), found["disks"][0]["target"]
    kind = root.find("os/type").get("machine") or ""  # type: ignore[union-attr]
    buses = [each.get("bus") for each in root.iterfind("devices/disk/target") if each.get("dev") == first]
    has_firmware = root.find("os/loader") is not None or root.find("os[@firmware='efi']") is not None
    model = root.find("devices/interface/model")
    has = {
        "hw_firmware_type": "uefi" if has_firmware else "bios",
        "hw_machine_type": "q35" if "q35" in kind else "pc" if kind.startswith("pc") else None,
        "hw_disk_bus": buses[0] if buses else None,
        "hw_vif_model": None if model is None else model.get("type"),
    }
    return {name: value for name, value in has.items() if value}


def entry(image: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the catalog that make it an image."""
    yield "    berth_images:"
    yield "      %s:" % json.dumps(image["name"])  # 12 and on are a number and a truth value to YAML
    yield "        url: %s" % json.dumps(image["path"])
    yield "        checksum: %s" % image["checksum"]
    yield "        disk_format: qcow2"
    yield "        min_disk: %d" % image["min_disk"]
    if image["min_ram"]:
        yield "        min_ram: %d" % image["min_ram"]
    if image["properties"]:
        yield "        properties: %s" % json.dumps(image["properties"], sort_keys=True)
    for part in ("kernel", "initrd"):
        if image[part]:
            yield "        %s: %s" % (part, json.dumps(image[part], sort_keys=True))
