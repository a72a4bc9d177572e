# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A document in a file of the controller."""

from __future__ import annotations

import json
import os
from typing import Any


def write_document(path: str, document: Any) -> None:
    """Write it for its owner only, whole or not at all."""
    descriptor = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, sort_keys=True)
    os.replace(path + ".tmp", path)
