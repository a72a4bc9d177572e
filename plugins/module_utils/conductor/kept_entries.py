# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A catalog that no longer has the flavor or an image of an instance that exists: its record has both, what its volumes were
made from is on them, and only new instances need the entries.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from ..model import catalog_schema, guest_settings, request_digest
from ..model.catalog import Catalog
from ..model.errors import BerthError
from ..model.guest_features import ImageProperties
from ..model.identity import DEFAULT_PROJECT
from ..model.lifecycle import OWN
from ..model.messages import Document
from ..model.unknown_names import FlavorNotFound, ImageNotFound, UnknownName
from ..placement.request import image_of
from .fleet import Place
from .plan import FAILED, Instance, fail

BOOTED_DIRECTLY = (*guest_settings.PROPERTIES.values(), "os_command_line")
ITS_IMAGE = "its own"  # the name of the image that a request does not name; a host tells only a digest of it
NOT_THERE = "the catalog has no %s %s any more, the instance keeps it"


def as_it_is(catalog: Catalog, values: Mapping[str, Any], places: Iterable[Place]) -> Tuple[Mapping[str, Any], Catalog]:
    """The variables, and the catalog, with the flavor and the image of its owner's record where the variables name none."""
    owner = next((place for place in places if place["role"] == OWN and place["content"]), None)
    if not owner:
        return values, catalog
    flavors, images = dict(catalog.flavors), dict(catalog.images)
    found = dict(values)
    try:
        if found.get("berth_flavor") in (None, ""):
            found["berth_flavor"] = owner["content"]["name"]
            flavors[owner["content"]["name"]] = _flavor(owner["content"])
        if found.get("berth_image") in (None, "") and not owner["adopted"]:
            found["berth_image"] = ITS_IMAGE
            images[ITS_IMAGE] = _image({"name": ITS_IMAGE, "properties": owner["image_props"]})
    except BerthError:  # what a host says of it is none: it has to be named
        return values, catalog
    return found, dataclasses.replace(catalog, flavors=flavors, images=images)


def with_kept(catalog: Catalog, values: Mapping[str, Any], places: Iterable[Place]) -> Tuple[Catalog, List[str]]:
    """The catalog with the flavor and the image that an owner's record has under the names in ``values``, and with the images
    of its volumes, if the catalog lacks them, and what it lacked, for people. Another name than the record's stays unknown."""
    owners = [place for place in places if place["role"] == OWN]
    if not owners:
        return catalog, []
    flavor, image = values.get("berth_flavor"), values.get("berth_image")
    content = next((place["content"] for place in owners if place["flavor"] == flavor), None)
    digest = request_digest.digests({"image": {"name": image}})["image"]
    named = (
        owners if image else ()
    )  # without a name there is nothing to lack: it was adopted, or its root disk is a volume
    has = next((place for place in named if (place["request_digests"] or {}).get("image") == digest), None)
    return with_entries(catalog, values, content, {"name": image, "properties": has["image_props"]} if has else None)


def with_entries(catalog: Catalog, values: Mapping[str, Any], flavor: Any, image: Any) -> Tuple[Catalog, List[str]]:
    """The same for an instance that exists, with the ``flavor`` and the ``image`` of its request, None where nobody has one."""
    project = str(values.get("berth_project") or DEFAULT_PROJECT)
    lacked: Dict[Tuple[str, str], None] = {}
    kept = catalog
    try:
        if flavor and _lacks_flavor(catalog, flavor["name"], project):
            kept = dataclasses.replace(kept, flavors={**catalog.flavors, flavor["name"]: _flavor(flavor)})
            lacked["flavor", flavor["name"]] = None
        for each in [*([image] if image else ()), *_of_volumes(catalog, values)]:
            if _lacks_image(kept, each["name"], project):
                kept = dataclasses.replace(kept, images={**kept.images, each["name"]: _image(each)})
                lacked["image", each["name"]] = None
    except BerthError:  # what a host says of it is no flavor or no image: it stays unknown
        return catalog, []
    return kept, [NOT_THERE % entry for entry in lacked]


def _of_volumes(catalog: Catalog, values: Mapping[str, Any]) -> List[Document]:
    """The images that its volumes are said to be made from, by name; none where the inventory is wrong, which its request tells."""
    try:
        named = catalog_schema.VolumesOfInstance().check(values.get("berth_volumes") or [], "berth_volumes")
        found = [catalog.volumes.get(entry["name"], {}).get("image") for entry in named]
    except BerthError:
        return []
    return [{"name": name} for name in found if name]


def _lacks_flavor(catalog: Catalog, name: str, project: str) -> bool:
    try:
        catalog.flavor(name, project)
    except FlavorNotFound:
        return True
    return False


def _lacks_image(catalog: Catalog, name: str, project: str) -> bool:
    """Also where the image is there, and one that it names for its kernel is not."""
    try:
        image_of(name, project, catalog)
    except ImageNotFound:
        return True
    except BerthError:
        return False  # what else is wrong with it is told with the request
    return False


def _flavor(content: Document) -> Document:
    fields = {part: content[part] for part in catalog_schema.FLAVOR.fields if part in content}
    return {**catalog_schema.FLAVOR.check(fields, "berth_flavor"), "name": content["name"]}


def _image(image: Document) -> Document:
    """Enough for the request of an instance that exists: nothing is built from it. What its flavor needs of it is in its
    properties; what is booted directly is left out, since the catalog may lack that, too."""
    given = {name: value for name, value in (image.get("properties") or {}).items() if name not in BOOTED_DIRECTLY}
    parts = dict.fromkeys(("url", "checksum", "upload", "kernel", "initrd"))
    rest = {
        "disk_format": "qcow2",
        "min_disk": 0,
        "min_ram": 0,
        "properties": ImageProperties().check(given, "berth_image"),
        "visibility": "public",
        "projects": [],
    }
    return {**parts, **rest, "name": image["name"]}


def tell(instance: Instance, kept: List[str]) -> None:
    """Say in its row what only the record has. Nothing is built from such a request."""
    if kept and instance.get("existing"):
        instance["differs"] = [*(instance.get("differs") or ()), *kept]
    elif kept and instance.get("state") != FAILED:
        fail(instance, UnknownName("; ".join(kept)))
