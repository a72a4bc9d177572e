# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cloud-init gets besides the user data: injected files, the password's hash, whether the root file system grows.

It goes to the guest as vendor data, which cloud-init keeps apart. A key in the user data replaces the same key in the
vendor data, so a key that is visibly in both is refused.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from . import input_hints
from .errors import BerthError, InvalidInput
from .image import TRUE_WORDS
from .injected_files import write_files
from .messages import Document
from .user_data import IGNITION, TALOS, cloud_configs, kind

AUTO, MANUAL = "auto", "manual"


class AutoDiskConfigDisabledByImage(BerthError):
    """berth_disk_config is auto, and the image's hw_auto_disk_config is disabled."""


def cloud_config(values: Mapping[str, Any], image: Document, user_data: Optional[str]) -> Document:
    """cloud-init's keys for what the instance's checked variables ask for; InvalidInput where the user data has them too."""
    parts: Dict[str, Document] = {}
    if values.get("berth_files"):
        parts["berth_files"] = {"write_files": write_files(values["berth_files"])}
    if values.get("berth_admin_password_hash"):
        password = values["berth_admin_password_hash"]
        parts["berth_admin_password_hash"] = {"user": {"hashed_passwd": password, "lock_passwd": False}}
    grow = _disk_config(values.get("berth_disk_config"), image)
    if grow:
        mode = {"mode": "auto" if grow == AUTO else "off"}
        parts["berth_disk_config"] = {"growpart": mode, "resize_rootfs": grow == AUTO}
    for variable, config in parts.items():
        _refuse_twice(variable, config, user_data)
        if values.get(variable) and kind(user_data) in (IGNITION, TALOS):
            rule = "left out: cloud-init does this, and the user data is for %s" % kind(user_data)
            raise InvalidInput(variable, "with such user data", rule)
    return {key: value for config in parts.values() for key, value in config.items()}


def _disk_config(asked: Optional[str], image: Document) -> Optional[str]:
    """auto, manual, or None: what the image does by itself."""
    properties = image.get("properties") or {}
    text = properties.get("hw_auto_disk_config", properties.get("auto_disk_config"))
    if text is None:
        return asked
    setting = str(text).lower()
    if setting == "disabled" and asked == AUTO:
        raise AutoDiskConfigDisabledByImage(
            "berth_disk_config: auto is not for image %s, whose hw_auto_disk_config is disabled" % image["name"],
            field="berth_disk_config",
            value=asked,
            rule="manual, or not given",
        )
    return asked or (AUTO if setting in TRUE_WORDS else MANUAL)


def _refuse_twice(variable: str, config: Document, user_data: Optional[str]) -> None:
    for key in _top_keys(user_data):
        if key in config:
            raise InvalidInput(
                "berth_user_data",
                "with the key %s" % key,
                "no %s together with %s: cloud-init would use only that of the user data" % (key, variable),
                hint=input_hints.in_one_place(variable, key),
            )


def _top_keys(user_data: Optional[str]) -> List[str]:
    """The keys of cloud-config in the user data, as far as they can be seen: not behind an #include."""
    key = re.compile(r"""^(?:\{\s*)?["']?([a-z_]+)["']?\s*:""", re.MULTILINE)
    return [name for text in cloud_configs(user_data or "") for name in key.findall(text)]
