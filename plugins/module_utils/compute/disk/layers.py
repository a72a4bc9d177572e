# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of a snapshot over a disk, as the files' own headers name them, the commands that merge them, and the
refusal of a volume that has one."""

from __future__ import annotations

import os
import shlex

from ...model import hints, state_hints
from ..errors import DiskChainChanged
from . import move_files, qcow2_header

DEEPEST = 200  # layers


def chain(path, form):
    """Return the backing files of a disk, as its header and theirs name them."""
    found = []
    while form == "qcow2" and len(found) < DEEPEST:
        header = qcow2_header.read(path)
        if not header.backing:
            break
        path, form = header.backing, header.backing_format
        found.append(path)
    return found


def layers_beside(planned):
    """Return [(file, disk)] of the files beside the disks ``planned`` (paths) that have one of them as backing file."""
    found = []
    for directory in sorted(set(map(os.path.dirname, planned))):
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        for path in (os.path.join(directory, name) for name in names):
            if path in planned or move_files.is_of_move(path):
                continue
            found += [(path, layer) for layer in chain(path, "qcow2") if layer in planned][:1]
    return found


def check_volume(name, path, host):
    """Raise DiskChainChanged if the data of a volume to attach is not all in its own file, at ``path``."""
    layers = [layer for layer, _disk in layers_beside([path])]
    below = chain(path, "qcow2")
    if layers:
        text = "%s is a layer over volume %s: the newest data may be only there" % (layers[0], name)
        hint = merge(host, layers)
    elif below:
        text = "volume %s stands on %s" % (name, below[0])
        hint = hints.take_disks_back(host, [pull(path)])
    else:
        return
    raise DiskChainChanged(text, hint=hint, host=host, files=layers or below)


def merge(host, layers):
    """Return the hint for layers that no definition names: merge the newest and those below it, or none."""
    newest = max(layers, key=lambda layer: len(chain(layer, "qcow2")))
    files = [newest, *chain(newest, "qcow2")]
    above = [file for file in files if file in layers]
    return state_hints.merge_layers(host, commit(above, files[len(above)]), layers)


def commit(above, base):
    quoted = " ".join(shlex.quote(path) for path in above)
    return "qemu-img commit -f qcow2 -b %s -- %s && rm -- %s" % (shlex.quote(base), shlex.quote(above[0]), quoted)


def pull(path):
    return "qemu-img rebase -f qcow2 -b '' -- %s" % shlex.quote(path)
