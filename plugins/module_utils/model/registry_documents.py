# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the registry's engine controllers and hosts read: its keys and the shapes of their documents. Controllers alone read all
the others, see conductor/registry/keys.py."""

from __future__ import annotations

from .shape import choice, flag, list_of, map_of, object_of, or_null, text, uuid, whole

META, INSTANCES = "/berth/meta", "/berth/inst/"
SCHEMA = 1
CREATE, MOVE, CHANGE = "create", "move", "change"  # what a run has begun
COUNT = whole(0, 1 << 40)

# before: while the hosts change over, the incarnation that they come from, or an empty text if they had no registry;
# cluster: the engine's own name for itself, see Transacted
REGISTRY = object_of(
    {
        "schema": whole(SCHEMA, SCHEMA),
        "incarnation": text(64),
        "kind": text(32),
        "open": flag,
        "before": text(64),
        "cluster": text(64),
    },
    optional=("before", "cluster"),
)
_PENDING = object_of(
    # sizes: of a change, the GiB with which volumes count that its host is to make, or to have grow
    {
        "run": text(),
        "kind": choice(CREATE, MOVE, CHANGE),
        "host": uuid,
        "op": text(),
        "claimed": flag,
        "sizes": map_of(uuid, COUNT, 100),
    },
    optional=("sizes",),
)
INSTANCE = object_of(
    {
        "name": text(),
        "project": text(),
        "owner": or_null(uuid),
        "epoch": COUNT,
        "pending": list_of(_PENDING, 10),
        "amounts": map_of(text(32), COUNT, 20),
        "group": or_null(uuid),
        "holds": list_of(text(1024), 1000),
        # hosts that were lost when the instance was made elsewhere or deleted: if they are back, they have an old copy
        "given_up": list_of(uuid, 100),
        # of the amounts, those of new volumes that outlive the instance
        "stays": map_of(text(32), COUNT, 20),
    },
    optional=("stays",),
)
