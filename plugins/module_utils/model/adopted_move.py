# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted instance on another host than the one on which it was found: which definitions may go there, and the request
that the other host keeps.

Its guest finds all that it had. Only what is its host's changes: the paths of its files, which lie where those of created
instances do, QEMU's path and the name of the domain. Which part of a definition names something of a host, only a list of
what does not can tell: so what is not on it is refused by name.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping
from xml.etree import ElementTree

from . import adopted
from .errors import BerthError
from .messages import Document
from .safe_text import clean

PARTS = frozenset(
    "name uuid genid title description metadata memory currentMemory maxMemory vcpu vcpus iothreads iothreadids os features cpu "
    "clock on_poweroff on_reboot on_crash pm devices seclabel resource cputune blkiotune memtune memoryBacking sysinfo".split()
)
DEVICES = frozenset(
    "emulator disk controller interface serial parallel console channel input graphics audio sound video redirdev watchdog "
    "memballoon rng panic hub iommu memory vsock".split()
)
DRIVES = ("cdrom", "floppy")
_BACKENDS = ("pty", "unix", "spicevmc", "spiceport", "null", "qemu-vdagent")
FILES_OR_NICS = {
    "disk": ("file",),
    "interface": ("bridge", "network"),
    **dict.fromkeys(("serial", "parallel", "console", "channel", "redirdev"), _BACKENDS),
}
LISTENS = (None, "", "127.0.0.1", "0.0.0.0", "::1", "::")
SOURCES_OF_RANDOM = ("/dev/urandom", "/dev/random")
# What libvirt chooses on each host again.
OF_HOST = ("seclabel", "resource", "metadata", "title", "description")
VARIABLES = "nvram.fd"


class AdoptedNotMovable(BerthError):
    """Something in the definition of an adopted guest is of its host, so no other host could run it; the message names all of it.
    Nothing was changed."""


def check(name: str, spec: Mapping[str, Any]) -> None:
    """Raise AdoptedNotMovable if the instance was adopted and its definition names what only its host has."""
    found = adopted.of(spec)
    if not found:
        return
    reasons = list(dict.fromkeys(in_the_way(found)))
    if reasons:
        raise AdoptedNotMovable("%s cannot move to another host: %s" % (name, "; ".join(reasons)), reasons=reasons)


def in_the_way(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield why this definition is for its host alone, as sentences."""
    root = adopted.root_of(found)
    yield from _unknown(root, PARTS, "its definition")
    devices = root.find("devices")
    others = [] if devices is None else [device for device in devices if device.tag != "tpm"]
    yield from _unknown(others, DEVICES, "it")
    yield from _of_tuning(root)
    for device in others:
        yield from _of_device(device, clean(root.findtext("uuid") or ""))
    yield from ("it names %s, a file of its host" % clean(path) for path in _paths(portable(found, root)))


def _unknown(parent: Any, known: "frozenset[str]", whose: str) -> Iterator[str]:
    for part in parent:
        if part.tag not in known:
            yield "%s has <%s>" % (whose, clean(str(part.tag).rpartition("}")[2]))


def _of_tuning(root: ElementTree.Element) -> Iterator[str]:
    vcpu = root.find("vcpu")
    pinned = [part.tag for part in root.iterfind("cputune/*") if part.tag.endswith(("pin", "sched"))]
    if pinned or vcpu is not None and vcpu.get("cpuset"):
        yield "its CPUs are tied to CPUs of its host"
    if root.find("devices/tpm") is not None:
        yield "it has a TPM, whose state stays on its host: another one could not read what the guest sealed with it"
    variables = root.find("os/nvram")
    if variables is not None and variables.get("format", "raw") != "raw":
        yield "its UEFI variables are %s, not raw" % clean(variables.get("format", ""))


def _of_device(device: ElementTree.Element, uuid: str) -> Iterator[str]:
    kind = clean(device.get("type") or "no type")
    if device.tag in FILES_OR_NICS and kind not in FILES_OR_NICS[device.tag]:
        yield "it has a %s of type %s" % (device.tag, kind)
    if device.tag == "rng" and {each.get("model") for each in device.iterfind("backend")} - {"random", "builtin"}:
        yield "its random numbers are from another program"
    source = device.find("source")
    if device.tag == "disk" and device.get("device") in DRIVES and source is not None:
        target = device.find("target")
        drive = clean("" if target is None else target.get("dev") or "")
        command = "virsh change-media %s %s --eject --config" % (uuid, drive)
        yield "its next start has a medium in drive %s. Eject it with %s" % (drive, command)
        device.remove(source)
    listens = {device.get("listen"), *(listen.get("address") for listen in device.iterfind("listen"))}
    if device.tag == "graphics" and listens - set(LISTENS):
        yield "its screen listens on an address of its host"


def _paths(root: ElementTree.Element) -> Iterator[str]:
    for element in root.iter():
        texts = [*element.attrib.values(), (element.text or "").strip()]
        loads = (
            [root.findtext("os/loader")] if element.tag == "loader" else SOURCES_OF_RANDOM
        )  # its new host looks itself
        yield from (text for text in texts if text.startswith("/") and text not in loads)


def portable(found: Mapping[str, Any], root: ElementTree.Element) -> ElementTree.Element:
    """Return the definition (its root is changed) without what each host chooses, and without the paths of its own files, which
    its host writes into it."""
    for part in OF_HOST:
        for element in root.findall(part):
            root.remove(element)
    devices = root.find("devices")
    for emulator in root.findall("devices/emulator"):
        devices.remove(emulator)  # type: ignore[union-attr]
    for device in root.iterfind("devices/disk"):
        for below in device.findall("backingStore"):
            device.remove(below)
    own = {each["target"] for each in found["disks"]}
    for device in root.iterfind("devices/disk"):
        target, source = device.find("target"), device.find("source")
        if target is not None and target.get("dev") in own and source is not None:
            source.attrib.pop("file", None)
    for log in root.iterfind("devices/*/log"):
        log.attrib.pop("file", None)
    for variables in root.iterfind("os/nvram"):
        variables.text = None
        variables.attrib.pop("template", None)
    return root


def moved_in(spec: Document) -> Document:
    """Return the request as another host than the first one keeps it. The same again if it is such a one; any other instance's
    as it is. Raise AdoptedNotMovable."""
    found = adopted.of(spec)
    if not found:
        return spec
    check(spec["name"], spec)
    root = portable(found, adopted.root_of(found))
    for name in root.iterfind("name"):
        name.text = spec["uuid"]  # a name that is free there
    files = [{**each, "path": "%(target)s.%(format)s" % each} for each in found["disks"]]
    there = {
        "definition": ElementTree.tostring(root, encoding="unicode"),
        "disks": files,
        "variables": VARIABLES if found.get("variables") else None,
    }
    return {**spec, adopted.KEY: there}
