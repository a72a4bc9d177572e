# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A port of a backup host, through which a KVM host writes a disk into a backup or reads it out of one: the channel of moves,
NBD over TLS with a key that lives for one backup. The key is in place, see transfer.write_key."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..move import transfer, watchdog
from .off import CONVERT


class Port(NamedTuple):
    """``uuid``: of the instance; ``at``: the target {host, port}."""

    uuid: str
    name: str
    at: Mapping[str, Any]

    def options(self) -> Tuple[List[str], str]:
        """Return the credentials for QEMU's programs, and the port as a node."""
        found: Tuple[List[str], str] = transfer.target_options(self.uuid, self._disk, self.at)
        return found

    @property
    def _disk(self) -> Dict[str, str]:
        return {"name": self.name}

    def write(self, source: str, also: Any = ()) -> None:
        """Write all that is not zero of ``source``, an image as qemu-img takes it, and flush it there."""
        credentials, options = self.options()
        how = ["-n", "--target-is-zero", *credentials, "--image-opts", "--target-image-opts"]
        self._follow([*CONVERT, *how, "--", source, options], also)
        self.flush()

    def write_file(self, path: str, form: str) -> None:
        self.write(transfer.source_options({"path": path, "format": form}))

    def source(self, size: Optional[int] = None) -> List[str]:
        """What is behind the port, as qemu-img takes it: no more than ``size`` bytes, whatever the other end offers."""
        credentials, options = self.options()
        below = ",".join("file." + option for option in options.split(","))
        return [*credentials, "--image-opts", "--", "driver=raw,size=%d,%s" % (size, below) if size else options]

    def read(self, path: str, form: str, source: Optional[Sequence[str]] = None) -> None:
        """Write what is behind the port to a file."""
        self._follow([*CONVERT, "-O", form, *(source or self.source()), path])

    def flush(self) -> None:
        transfer.flush(self.uuid, self._disk, self.at)

    def blockdevs(self, size: int) -> List[str]:
        """The arguments of a qemu-storage-daemon that make it the node ``target`` of that many bytes."""
        credentials, options = self.options()
        sized = "driver=raw,size=%d,file=arriving,node-name=target" % size
        return [*credentials, "--blockdev", options + ",node-name=arriving", "--blockdev", sized]

    def other_end(self) -> Any:
        return watchdog.OtherEnd(self.at)

    def note(self, pid: int) -> None:
        """Have whoever ends the copy know the program that copies."""
        with open(self._pid_file(), "w") as file:
            file.write(str(pid))

    def _pid_file(self) -> str:
        return transfer.directory(self.uuid, transfer.PID_FILE)

    def _follow(self, command: List[str], also: Any = ()) -> None:
        watchdog.follow(command, self._pid_file(), self.at, also=also)
