# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that somebody made beside the disks of an instance or its volumes, such as the disks of a clone or a copy before
a change. Where these are removed, after a move or by a delete, the whole directory goes."""

from __future__ import annotations

import os
import re
import stat
from typing import List

from ...model import data_disks, guest_settings, volumes
from ...model.errors import MOST_NAMED
from .. import paths
from ..guest import nvram
from . import owner, undo
from .difference import BESIDE, Difference
from .layers import layers_beside

# what ends the names of files that are being made, that a move writes, and that a command of ours keeps
ENDS = re.compile(
    r"(\.tmp|\.scratch|\.merging|\.incoming-\d+|\.pre-[0-9a-f]{32}|\.before|%s|%s)+\Z"
    % (re.escape(undo.ASIDE), re.escape(undo.MADE))
)
STARTS = (".", "moving-")  # what is being written, or removed by NFS; and the marks of moves
DISKS = {"root.qcow2", "root.raw", "ephemeral0", "swap"}  # a resize may change the kind of the root disk
COPIED = ("record.json", "domain.xml")  # what set_aside.py writes
KNOWN = {
    owner.FILE,
    paths.VOLUME_FILE,
    paths.SEED,
    paths.IGNITION,
    nvram.FILE,
    *DISKS,
    *COPIED,
    *guest_settings.PROPERTIES,
}


def found(pool_path, record, specs, going=None) -> List[Difference]:
    """Return a difference for each file. ``specs``: the requests of the instance. ``going``: the names of the volumes
    that are removed too, by default all."""
    own = DISKS | {data_disks.file_of(disk["name"]) for spec in specs for disk in data_disks.check(spec)}
    gone = [each for each in volumes.of(record.spec) if going is None or each["name"] in going]
    directories = [paths.instance(pool_path, record.uuid), *(paths.volume(pool_path, each["uuid"]) for each in gone)]
    disks = [paths.instance(pool_path, record.uuid, file) for file in own]
    disks += [paths.volume_file(pool_path, each["uuid"]) for each in volumes.check(record.spec)]
    # a layer that is merged has nothing that its disk lacks, and one that the guest uses is another difference
    layers = {layer for layer, _disk in layers_beside(disks)}
    files = [path for directory in directories for path in _strange(directory, own) if path not in layers]
    return [Difference(BESIDE, _text(path, files), None, (path,)) for path in files]


def _text(path, files):
    """Only so many are named that the hint after them is read."""
    if path in files[:MOST_NAMED]:
        return "%s lies beside its disks and is none of them" % path
    return "%d more files lie there" % (len(files) - MOST_NAMED)


def _strange(directory, own):
    paths_of = (os.path.join(directory, name) for name in sorted(paths.entries(directory)) if not _is_ours(name, own))
    return [path for path in paths_of if _is_file(path)]


def _is_file(path):
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:  # somebody has just removed it
        return False


def _is_ours(name, own):
    made_for = ENDS.sub("", name)
    # update_disks makes a data disk before the record names it
    begun = name.endswith(".tmp") and data_disks.name_of(made_for)
    return name.startswith(STARTS) or made_for in own or made_for in KNOWN or bool(begun)
