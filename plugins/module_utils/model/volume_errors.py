# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong with volumes. Nothing was done to a volume or to an instance then."""

from __future__ import annotations

from .errors import BerthError


class VolumeInUse(BerthError):
    """Another instance has the volume: one volume has one instance."""


class VolumeNotFound(BerthError):
    """No host has the volume, or the host on which it was found has it no more."""


class VolumeUnknown(BerthError):
    """A host that may have the volume does not answer: it is neither made nor removed."""


class VolumeDuplicate(BerthError):
    """More than one host has a volume of this name: a person has to look."""


class VolumeConflict(BerthError):
    """Another run made, changed or removed the volume at the same time."""


class VolumeElsewhere(BerthError):
    """The volume is on another host, or in another storage pool, than the instance that is to have it."""


class VolumeNotAttached(BerthError):
    """The record of the volume does not say that it is this instance's, so the guest is not started with it."""


class VolumeNotBootable(BerthError):
    """The volume was made from another image than the instance's, or from none, so the instance does not boot from it."""


class VolumeStays(BerthError):
    """The instance has volumes, and the host that it was to go to does not share the storage that they are in."""

    retryable = True
