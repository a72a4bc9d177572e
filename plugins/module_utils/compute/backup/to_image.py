# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image of the root disk of an instance, running or off: one qcow2 file that stands on no other, in a directory from which
this host takes images.

    .partial-UUID-root -> read back -> record, with the checksum -> NAME.qcow2

A run that is cut off leaves no image, and the next one of the instance removes what it left.
"""

from __future__ import annotations

import os
from typing import Any, Dict, NamedTuple, Optional

from ...model import clone_hints, input_hints, made_images
from ...model.errors import BerthError
from ...model.made_images import OPERATION
from .. import paths
from ..disk import disk as disks
from ..record import journal
from . import clone, place


class ImageNotMade(BerthError):
    """No image was made of the instance: there is a file of that name, or the directory is none from which the host takes images, or
    has no room. The instance is as it was."""


class Wish(NamedTuple):
    """``image``: its name; ``to``: the directory, by default the first of those from which the host takes images."""

    image: str
    to: Optional[str] = None


def would_make_image(instance: Any, wish: Wish) -> bool:
    _record, _path, before = _checked(instance, wish)
    return before is None


def make_image(instance: Any, wish: Wish) -> Dict[str, Any]:
    """Return {changed, image}, see model/made_images.py."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record, path, before = _checked(instance, wish)
        root = disks.plan(record.spec)[0]
        part = clone.part_of(record, instance.host.pool_of(record), root, os.path.dirname(path))
        if before:
            paths.remove(part.target)
            return {"changed": False, "image": _told(record, wish, path, before)}
        clone.check_room(os.path.dirname(path), wish.image, [part], ImageNotMade)
        instance.observe("image copy")
        try:
            frozen = clone.copy(instance.host, record, [part])
            place.check_qcow2(part.target)
            checksum = "sha256:" + place.digest(part.target)
        except Exception:
            paths.remove(part.target)
            raise
        instance.observe("image copied")
        event = {"image": wish.image, "path": path, "checksum": checksum, "size": part.size, "frozen": frozen}
        record = instance.swap(journal.noted(record, OPERATION, **event))
        instance.observe("image noted")
        _publish(instance, part.target, path, record.name)
        return {"changed": True, "image": _told(record, wish, path, event)}


def _checked(instance: Any, wish: Wish) -> Any:
    """Return (record, path of the image, the event of the history if it was made)."""
    made_images.check_name(wish.image)
    host, name = instance.host, instance.host.connection.getHostname()
    record = clone.checked(instance, OPERATION)
    path = os.path.join(_directory(host, name, wish.to), wish.image + ".qcow2")
    before = _made_before(record, path)
    if before is None and os.path.lexists(path):
        raise _is_there(path, record.name)
    return record, path, before


def _publish(instance: Any, made: str, path: str, name: str) -> None:
    """Never replace a file: another host may share the directory, and have made an image of that name meanwhile."""
    try:
        os.link(made, path)
    except OSError as error:
        paths.remove(made)
        raise _is_there(path, name) if isinstance(error, FileExistsError) else error
    instance.observe("image named")
    paths.remove(made)
    paths.sync_directory(os.path.dirname(path))


def _is_there(path: str, name: str) -> ImageNotMade:
    return ImageNotMade(
        "%s is there already, and is no image of %s" % (path, name), hint=clone_hints.name_another_image(path)
    )


def _directory(host: Any, name: str, to: Optional[str]) -> str:
    """Return the directory: what is not below one of the host's directories for images could not be used as one."""
    known = [each.rstrip("/") for each in host.settings.image_directories]
    found = to.rstrip("/") if to else next(iter(known), "")
    if os.path.normpath(found) != found or not any((found + "/").startswith(each + "/") for each in known):
        raise ImageNotMade(
            "%s takes no images from %s" % (name, found or "any directory"),
            field="berth_image_to",
            value=to,
            rule="below one of berth_host_image_directories of the host: %s" % (", ".join(known) or "it has none"),
            hint=input_hints.image_directory(),
        )
    if not os.path.isdir(found):
        raise ImageNotMade(
            "%s on %s is no directory" % (found, name), hint=clone_hints.make_image_directory(name, found)
        )
    return found


def _made_before(record: Any, path: str) -> Optional[Dict[str, Any]]:
    """The event of the history if that image of the instance is there and whole."""
    events = [each for each in record.history if (each.get("event"), each.get("path")) == (OPERATION, path)]
    whole = events and os.path.isfile(path) and "sha256:" + place.digest(path) == events[-1].get("checksum")
    return events[-1] if whole else None


def _told(record: Any, wish: Wish, path: str, event: Dict[str, Any]) -> Dict[str, Any]:
    image = record.spec.get("image") or {}
    return {
        "name": wish.image,
        "path": path,
        "checksum": event["checksum"],
        "bytes": os.path.getsize(path),
        "min_disk": -(-event["size"] // disks.GIB),
        "min_ram": image.get("min_ram") or 0,
        "properties": image.get("properties") or made_images.of_adopted(record.spec),
        **{part: image.get(part) for part in disks.PARTS},
        "frozen": event["frozen"],
    }
