# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action volume: see plugins/modules/volume.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import uploads
from ..plugin_utils.host_reply import HostAction
from ..plugin_utils.named_instances import of_volume


class ActionModule(HostAction):
    """Sends the image that a volume is made from first, if it is on the controller."""

    def on_host(self, task_vars):
        args = self._task.args = of_volume(self._task.args)
        volume = args.get("volume") or {}
        image = volume.get("image") or {}
        if args.get("state") == "present" and image.get("upload"):
            trouble = uploads.bring(self, image, volume.get("pool"), volume.get("size_gb"), task_vars)
            if trouble:
                return {"failed": "error" in trouble, "changed": False, **trouble}
        return super().on_host(task_vars)
