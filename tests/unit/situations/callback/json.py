# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A callback that writes the whole run to stdout as one document, as ansible.posix.json does, which may not be installed."""

from __future__ import annotations

import json

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: json
type: stdout
short_description: The run as one JSON document
description: [For the tests.]
extends_documentation_fragment: [default_callback]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "json"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._tasks = []

    def _keep(self, result, **_more):
        kept = json.loads(self._dump_results(result._result, indent=0))
        self._tasks.append({"task": result._task.get_name(), "host": result._host.get_name(), "result": kept})

    v2_runner_on_ok = v2_runner_on_failed = v2_runner_on_unreachable = v2_runner_on_skipped = _keep

    def v2_playbook_on_stats(self, stats):
        hosts = {host: stats.summarize(host) for host in stats.processed}
        self._display.display(json.dumps({"tasks": self._tasks, "stats": hosts}))
