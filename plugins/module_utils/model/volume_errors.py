# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors about volumes. When one is raised, nothing was done to a volume or an instance."""

from __future__ import annotations

from .errors import BerthError


class VolumeInUse(BerthError):
    """Another instance uses the volume. Only one instance can use a volume."""


class VolumeNotFound(BerthError):
    """No host has the volume, or its host does not have it any more."""


class VolumeUnknown(BerthError):
    """A host that may have the volume does not answer. The volume was neither made nor removed."""


class VolumeDamaged(BerthError):
    """A host cannot read its record of the volume. The volume counts as there: it is not made anew, attached or removed."""


class VolumeDuplicate(BerthError):
    """More than one host has a volume of this name. A person has to decide."""


class VolumeConflict(BerthError):
    """Another run made, changed or removed the volume at the same time."""


class VolumeElsewhere(BerthError):
    """The volume is on another host or in another storage pool than the instance."""


class VolumeNotAttached(BerthError):
    """The record of the volume does not name this instance, so the guest was not started with it."""


class VolumeNotBootable(BerthError):
    """The volume was made empty or from another image than the instance's, so the instance cannot boot from it."""


class VolumeStays(BerthError):
    """The destination shares a part of the storage of the instance's disks and volumes, but not all of it."""

    retryable = True


class VolumeWritesLost(BerthError):
    """A revert would go back to volumes as they were before the move, and the guest has written to them since."""
