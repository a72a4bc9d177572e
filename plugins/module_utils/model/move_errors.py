# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of resize and migrate. The names are Nova's where Nova has one."""

from __future__ import annotations

from typing import Any, List, Optional

from . import hints
from .errors import BerthError


class InstanceNotFound(BerthError):
    """This host has no record of the instance."""


class InstanceInvalidState(BerthError):
    """The state of the instance does not allow this; the message names the attribute and the state."""

    def __init__(self, uuid: str, attr: str, state: Optional[str], method: str, **details: Any) -> None:
        if attr == "task_state":  # such as the later of two moves at once
            details.setdefault("hint", hints.another_run())
        super().__init__(
            "Cannot '%s' instance %s while it is in %s %s" % (method, uuid, attr, state),
            attr=attr,
            state=state,
            method=method,
            **details,
        )


class InstanceNotResized(BerthError):
    """The instance waits neither for a confirm nor for a revert."""

    def __init__(self, uuid: str, **details: Any) -> None:
        super().__init__(
            "Instance %s has not been resized, or that is over: nothing waits for a confirm or a revert" % uuid,
            **details,
        )


class CannotResizeDisk(BerthError):
    """A disk would become smaller."""


class MigrationFenced(BerthError):
    """Another run has taken over the move, so this run must stop. Run the same playbook again."""


class MigrationEnded(BerthError):
    """The move was abandoned or has ended, or the instance was deleted. A late step was refused, or a second look."""


class MigrationConflict(BerthError):
    """What this host holds of the instance does not fit this move, for example the record of another operation."""


class MigrationNotReady(BerthError):
    """A step was run too early: the guest still runs, or the copy is not verified."""


class SourceDiffers(BerthError):
    """The source describes the instance differently from what placement used. The destination refuses the move."""


class MigrationPreCheckError(BerthError):
    """The move cannot work; every reason is in ``problems``."""

    retryable = True

    def __init__(self, uuid: str, problems: List[str], hint: Optional[str] = None) -> None:
        super().__init__("Instance %s cannot be moved: %s" % (uuid, "; ".join(problems)), hint=hint, problems=problems)


class OperationNotSupportedForVTPM(BerthError):
    """The instance has a TPM, whose state stays on its host. After a move the guest could not read what it sealed with it."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(
            "%s: %s has a TPM, and its state cannot leave the host. Nothing was changed" % (kind, name),
            field="hw:tpm_version",
            rule="only instances without a TPM are resized and migrated",
        )


class OperationNotSupportedForSEV(BerthError):
    """The instance's memory is encrypted for its host's processor, so it cannot be migrated while it runs."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(
            "%s: the memory of %s is encrypted by its host's processor. Nothing was changed" % (kind, name),
            field="hw:mem_encryption",
            rule="a guest with encrypted memory is moved while it is off: berth.kvm.cold_migrate",
        )


class TransferFailed(BerthError):
    """Copying a disk failed; the source is complete and nothing was taken over."""

    retryable = True


class RunEnded(BerthError):
    """The run that requested a copy ended before the copy did. The copy was stopped, and the guest continues on the
    source. Run the same again."""


class MigrationError(BerthError):
    """A live migration failed; the guest runs on the source."""

    retryable = True
