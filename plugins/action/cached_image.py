# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action cached_image: see plugins/modules/cached_image.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import uploads
from ..plugin_utils.host_reply import HostAction


class ActionModule(HostAction):
    """An image with C(upload), a file of the controller, is sent first if the host lacks it."""

    def on_host(self, task_vars):
        arguments = dict(self._task.args)
        image = dict(arguments.get("image") or {})
        if not image.get("upload"):
            return super().on_host(task_vars)
        return uploads.bring(self, image, arguments.get("pool"), arguments["root_gb"], task_vars)
