# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors for unknown names, in the catalog or on a host, with what was probably meant."""

from __future__ import annotations

from typing import Any, Iterable

from .errors import BerthError
from .suggest import did_you_mean


class UnknownName(BerthError):
    """The instance's variables contain a name that is not in the catalog."""

    kind: str

    @classmethod
    def named(cls, field: str, name: Any, known: Iterable[str]) -> UnknownName:
        shown = name if str(name) == str(name).strip() else repr(name)  # a space that nobody sees
        message = "%s: there is no %s %s" % (field, cls.kind, shown)
        return cls(message, field=field, value=name, hint=did_you_mean(name, known, cls.kind))


class FlavorNotFound(UnknownName):
    """The flavor is not defined, is disabled, or belongs to other projects."""

    kind = "flavor"


class ImageNotFound(UnknownName):
    """The image is not defined, or belongs to other projects."""

    kind = "image"


class NetworkNotFound(UnknownName):
    """The network is not defined, or a host lacks its bridge, libvirt network or filter: another host may have that."""

    kind = "network"

    def __init__(self, message: str, retryable: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.retryable = retryable


class SecurityGroupNotFound(UnknownName):
    """The security group is not defined."""

    kind = "security group"


class ServerGroupNotFound(UnknownName):
    """The server group is not defined."""

    kind = "server group"


class KeypairNotFound(UnknownName):
    """The key pair is not defined."""

    kind = "key pair"


class VolumeNotDefined(UnknownName):
    """The volume is not in berth_volumes_defined."""

    kind = "volume"


class AvailabilityZoneNotFound(UnknownName):
    """No aggregate has this availability zone."""

    kind = "availability zone"
