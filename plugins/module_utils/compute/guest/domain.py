# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest in libvirt: define and read back, start or resume, stop, remove. Each call has a time limit."""

from __future__ import annotations

import time
from xml.etree import ElementTree

from ...model import state_hints
from ...model.errors import InstanceExists
from ...model.lifecycle import PAUSED, SAVED
from .. import connection as libvirt_connection
from ..connection import Deadline, LibvirtTimeout, LibvirtUnavailable, require_libvirt
from ..errors import BuildFailed, DiskIOError, GuestNotSupported
from . import agent, domains
from .domains import POWER_STATES
from .terms import NAMESPACE, mark_of

# The name of a guest's domain in libvirt: its uuid, unless somebody renamed it (virsh domrename).
NAMED = "<name>%s</name>"


def with_kept_name(xml, uuid, name):
    """Return the definition with the name that libvirt's domain has: libvirt refuses another."""
    from html import escape  # slow, and only a guest that is defined already needs it

    return xml.replace(NAMED % uuid, NAMED % escape(name, quote=False), 1)


def name_taken(host, uuid, other):
    """Return the error that a domain with the uuid ``other`` has the name, as after virsh edit gave the guest that uuid."""
    return InstanceExists(
        "the guest %s cannot be defined on %s: another domain, with the uuid %s, has its name. That was left alone"
        % (uuid, host, other),
        hint=state_hints.rename_domain(host, other),
        host=host,
    )


# Which parts of a definition libvirt dropped: it accepts elements that it does not know, and silently omits them.


def check_dropped(xml, text):
    """Raise BuildFailed naming the parts of the defined ``xml`` that are not in ``text``, which was read back."""
    lost = dropped_parts(ElementTree.fromstring(xml), ElementTree.fromstring(text))
    if lost:
        raise BuildFailed("libvirt dropped parts of the definition: %s" % ", ".join(lost[:5]))


def dropped_parts(wanted, found, path=""):
    """Return what of ``wanted`` is not in ``found``, by its path."""
    lost = []
    for child in wanted:
        here = "%s/%s" % (path, child.tag)
        candidates = found.findall(child.tag)
        if not candidates:
            lost.append(here)
        elif not any(not dropped_parts(child, candidate, here) and _same(child, candidate) for candidate in candidates):
            lost.extend(min((dropped_parts(child, candidate, here) for candidate in candidates), key=len) or [here])
    return lost


def _same(wanted, found):
    """Whether text and attributes are those that were asked for. libvirt expands a machine type."""
    if wanted.tag == "type":
        return True
    if (wanted.text or "").strip() and wanted.text.strip() != (found.text or "").strip():
        return False
    return all(_plain(found.get(name)) == _plain(value) for name, value in wanted.attrib.items())


def _plain(value):
    """Normalize a value: 0x00 and 0x0000 are one number to libvirt."""
    if value is not None and value.startswith("0x"):
        return int(value, 16)
    return value


CALL_TIMEOUT = 60  # s
MEMORY_KIB_PER_SECOND = 20 << 10
SHUTDOWN_AGAIN = 5  # s between two requests to power off: one sent before the guest is up is lost
POLL = 0.05
CHOSEN_AT_START = ("cpu", "os")  # of host-model the model that is there, of firmware="efi" the file of the firmware
GOES_ON = 2  # s in which a guest whose disk still fails is paused again


def _call(what, function, *args, timeout=CALL_TIMEOUT):
    """Return the call's result, or raise BuildFailed with libvirt's words, LibvirtTimeout or LibvirtUnavailable."""
    library = require_libvirt()
    try:
        return Deadline(timeout).call(function, *args, what=what)
    except library.libvirtError as error:
        if error.get_error_domain() == library.VIR_FROM_RPC:
            raise LibvirtUnavailable("the connection to libvirt broke while %s: %s" % (what, error))
        code = error.get_error_code()
        # libvirt objects to the definition itself: the same request would always fail here.
        unfit = (library.VIR_ERR_CONFIG_UNSUPPORTED, library.VIR_ERR_XML_ERROR, library.VIR_ERR_XML_INVALID_SCHEMA)
        raise (GuestNotSupported if code in unfit else BuildFailed)("%s: %s" % (what, error), libvirt_code=code)


def find(connection, uuid):
    """Return the libvirt domain, or None."""
    return _looked_up(connection.lookupByUUIDString, uuid)


def find_active(connection, uuid):
    """Return the libvirt domain of a guest that is on, or None."""
    domain = find(connection, uuid)
    return domain if domain is not None and _is_on(domain) else None


def _looked_up(look_up, key):
    library = require_libvirt()
    try:
        return Deadline(CALL_TIMEOUT).call(look_up, key, what="looking the domain up")
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise LibvirtUnavailable("looking the domain up: %s" % error)


def _ask(connection, uuid, what, method, *args):
    """Return what the domain's method says, or None if libvirt does not know the guest."""
    domain = find(connection, uuid)
    return None if domain is None else _unless_gone(what, getattr(domain, method), *args)


def _unless_gone(what, function, *args):
    """Return the call's result, or None if libvirt knew the domain until just now."""
    try:
        return _call(what, function, *args)
    except BuildFailed as error:
        if _is_gone(error):
            return None
        raise


def _is_gone(error):
    """Whether libvirt no longer knows the domain: another run may delete it at the same time."""
    return error.details.get("libvirt_code") == require_libvirt().VIR_ERR_NO_DOMAIN


def _state_and_reason(connection, uuid):
    """Return (power state, libvirt's reason), or (None, None) if libvirt does not know the guest."""
    found = _ask(connection, uuid, "reading the state", "state")
    return (None, None) if found is None else (POWER_STATES.get(found[0], "nostate"), found[1])


def state(connection, uuid):
    """Return running, paused, shutdown, crashed, suspended, or None if libvirt does not know the guest."""
    return _state_and_reason(connection, uuid)[0]


def is_active(connection, uuid):
    return bool(_ask(connection, uuid, "reading the state", "isActive"))


def definitions(domain):
    """Return (the XML of the running guest or None, that of its next start or None). Both are None if it is gone."""
    library = require_libvirt()
    active = bool(_unless_gone("reading the state", domain.isActive))
    lasting = bool(_unless_gone("reading the domain", domain.isPersistent))
    at_rest = library.VIR_DOMAIN_XML_INACTIVE
    return (
        _unless_gone("reading the running guest's definition", domain.XMLDesc, 0) if active else None,
        _unless_gone("reading the definition", domain.XMLDesc, at_rest) if lasting else None,
    )


def definition(connection, uuid):
    """Return the XML of the guest's next start, or None if libvirt does not know the guest."""
    return _ask(connection, uuid, "reading the definition", "XMLDesc", require_libvirt().VIR_DOMAIN_XML_INACTIVE)


def is_saved(connection, uuid):
    """Whether libvirt has saved the guest's memory to a file, from which the next start continues."""
    return bool(_ask(connection, uuid, "asking for a saved state", "hasManagedSaveImage", 0))


def has_memory(connection, uuid):
    """Whether that file is there and complete: that of a save that was cut off has no definition to read."""
    if not is_saved(connection, uuid):
        return False
    library = require_libvirt()
    try:
        return bool(
            Deadline(CALL_TIMEOUT).call(find(connection, uuid).managedSaveGetXMLDesc, 0, what="reading the memory")
        )
    except library.libvirtError:
        return False


def is_paused_by_user(connection, uuid):
    """Whether a person has paused the guest, and neither QEMU for a failed disk nor a job."""
    paused = ("paused", require_libvirt().VIR_DOMAIN_PAUSED_USER)
    return _state_and_reason(connection, uuid) == paused


def is_saved_to_file(connection, uuid):
    """Whether the guest is off because its memory was saved to a file that libvirt does not know (virsh save). The same
    is told of memory that was removed (virsh managedsave-remove). Once libvirt was restarted, it does not tell."""
    saved = _state_and_reason(connection, uuid) == ("shutdown", require_libvirt().VIR_DOMAIN_SHUTOFF_SAVED)
    return saved and not is_saved(connection, uuid)


def shown_state(connection, uuid, power):
    """The guest's state for people: ``power``, or SAVED if it is off and its memory is in somebody's file."""
    return SAVED if power == "shutdown" and is_saved_to_file(connection, uuid) else power


def has_crashed(connection, uuid):
    """Whether the guest is off because its QEMU died or failed to start, not because somebody ended it."""
    library = require_libvirt()
    now, reason = _state_and_reason(connection, uuid)
    died = (library.VIR_DOMAIN_SHUTOFF_CRASHED, library.VIR_DOMAIN_SHUTOFF_FAILED)
    return now == "crashed" or now == "shutdown" and reason in died


def is_managed(domain):
    """Whether the domain is berth's. berth touches no other."""
    text = _call("reading the definition", domain.XMLDesc, 0)
    return domains.is_managed(ElementTree.fromstring(text))


def define(connection, uuid, xml):
    """Define the guest and return the text that libvirt made of it. Raise InstanceExists, and change nothing, if berth
    did not make the domain with this uuid, or if another domain has the guest's name."""
    library = require_libvirt()
    there = find(connection, uuid)
    if there is not None and not is_managed(there):
        raise InstanceExists("a domain that berth does not manage has the uuid %s" % uuid)
    other = _looked_up(connection.lookupByName, uuid) if there is None else None
    if other is not None:
        raise name_taken(connection.getHostname(), uuid, other.UUIDString())
    if there is not None:
        xml = with_kept_name(xml, uuid, there.name())
    domain = _call("defining the domain", connection.defineXMLFlags, xml, library.VIR_DOMAIN_DEFINE_VALIDATE)
    text = _call("reading the definition", domain.XMLDesc, library.VIR_DOMAIN_XML_INACTIVE)
    check_dropped(xml, text)
    return text


def attach(domain, xml, flags):
    """Attach a device to the running guest, to its definition, or to both, as ``flags`` say."""
    _call("attaching a device", domain.attachDeviceFlags, xml, flags)


def attach_element(domain, element, flags):
    attach(domain, ElementTree.tostring(element, encoding="unicode"), flags)


def update(domain, xml):
    _call("changing a device", domain.updateDeviceFlags, xml, require_libvirt().VIR_DOMAIN_AFFECT_LIVE)


def ask_qemu(domain, command):
    """Return the answer of the running guest's QEMU to a command in its own protocol, both as text. A refusal is an
    answer, too. None if libvirt's binding cannot do that."""
    library = libvirt_connection.qemu_part()
    return None if library is None else _call("asking QEMU", library.qemuMonitorCommand, domain, command, 0)


def has_disk(domain, path):
    """Whether libvirt says that the running guest has the disk with the file ``path``."""
    return _disk_of(definitions(domain)[0], path) is not None


def detach_disk(domain, path, timeout):
    """Detach the disk with the file ``path``, see detach()."""
    return detach(domain, lambda text: _disk_of(text, path), path, timeout)


def detach_nic(domain, mac, timeout):
    """Detach the network interface with that MAC address, see detach()."""
    return detach(domain, lambda text: nic_of(text, mac), "network interface %s" % mac, timeout)


def detach(domain, find_in, what, timeout):
    """Detach a device from the guest, then from its definition. Return whether the guest released it: if not, its definition
    keeps it, too. ``find_in`` returns its element in a definition, or None."""
    library = require_libvirt()
    ends = time.monotonic() + timeout
    for which, flag in enumerate((library.VIR_DOMAIN_AFFECT_LIVE, library.VIR_DOMAIN_AFFECT_CONFIG)):
        element = find_in(definitions(domain)[which])
        if element is not None:
            xml = ElementTree.tostring(element, encoding="unicode")
            _call("detaching %s" % what, domain.detachDeviceFlags, xml, flag)
        while find_in(definitions(domain)[which]) is not None:
            if time.monotonic() > ends:
                return False
            time.sleep(POLL)
    return True


def nic_of(text, mac):
    """Return the <interface> of a definition with the MAC address, or None."""
    found = ElementTree.fromstring(text).iterfind("devices/interface[mac]") if text else ()
    return next((element for element in found if element.find("mac").get("address").lower() == mac), None)


def _disk_of(text, path):
    """Return the <disk> of a definition that has the file, or None. ``text`` is None if there is no such definition."""
    found = ElementTree.fromstring(text).iterfind("devices/disk") if text else ()
    return next((element for element in found if _file_of(element) == path), None)


def _file_of(disk):
    source = disk.find("source")
    return None if source is None else source.get("file")


def set_vcpus(domain, count):
    """Give the running guest so many CPUs, or leave it so many."""
    _call("setting %d CPUs" % count, domain.setVcpusFlags, count, require_libvirt().VIR_DOMAIN_AFFECT_LIVE)


def limit_cpus(domain, numbers):
    """Give the running guest the limits {libvirt's name of a parameter: number}."""
    flag = require_libvirt().VIR_DOMAIN_AFFECT_LIVE
    _call("limiting the CPUs", domain.setSchedulerParametersFlags, numbers, flag)


def limit_disk(domain, target, numbers):
    """The same for the disk with the device name ``target``."""
    flag = require_libvirt().VIR_DOMAIN_AFFECT_LIVE
    _call("limiting disk %s" % target, domain.setBlockIoTune, target, numbers, flag)


def limit_nic(domain, mac, numbers):
    """The same for a network interface."""
    flag = require_libvirt().VIR_DOMAIN_AFFECT_LIVE
    _call("limiting network interface %s" % mac, domain.setInterfaceParameters, mac, numbers, flag)


def resize_disk(domain, path, size):
    """Tell the running guest that a disk has grown to ``size`` bytes."""
    _call("resizing %s" % path, domain.blockResize, path, size, require_libvirt().VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def mark(text):
    """Return what berth's mark in a definition says: {part: text}; {} without a mark."""
    found = mark_of(ElementTree.fromstring(text))
    return {} if found is None else {part.tag.rpartition("}")[2]: part.text for part in found}


def note(domain, instance):
    """Put berth's mark (an element) into the definition, and into that of the running guest. None removes it."""
    library = require_libvirt()
    plain = ElementTree.Element("instance")  # libvirt itself adds the namespace
    for part in instance if instance is not None else ():
        ElementTree.SubElement(plain, part.tag.rpartition("}")[2]).text = part.text
    flags = library.VIR_DOMAIN_AFFECT_CONFIG
    if _call("reading the state", domain.isActive):
        flags |= library.VIR_DOMAIN_AFFECT_LIVE
    text = None if instance is None else ElementTree.tostring(plain, encoding="unicode")
    kind = library.VIR_DOMAIN_METADATA_ELEMENT
    _call("noting the record", domain.setMetadata, kind, text, "berth", NAMESPACE, flags)


def entitle(domain, title):
    """Give the domain a title, for people, in its definition and in that of the running guest."""
    flags = require_libvirt().VIR_DOMAIN_AFFECT_CONFIG
    if _call("reading the state", domain.isActive):
        flags |= require_libvirt().VIR_DOMAIN_AFFECT_LIVE
    _call("naming the guest", domain.setMetadata, require_libvirt().VIR_DOMAIN_METADATA_TITLE, title, None, None, flags)


def _with_secrets(what, domain):
    """Return the definition of the guest's next start, such that it can be defined from it."""
    library = require_libvirt()
    flags = library.VIR_DOMAIN_XML_INACTIVE | library.VIR_DOMAIN_XML_SECURE
    return _call(what, domain.XMLDesc, flags)


def keep_definition(connection, domain):
    """Define a running guest again that somebody undefined: otherwise libvirt forgets it and its TPM once it is off."""
    try:
        if not _call("reading the domain", domain.isPersistent):
            text = _with_secrets("reading the running guest's definition", domain)
            _call("defining the domain", connection.defineXMLFlags, text, 0)
    except BuildFailed:
        if _is_on(domain):
            raise


def start(connection, uuid):
    """Start the guest, or resume a paused one. Return whether anything was done."""
    domain = find(connection, uuid)
    if domain is None:
        raise BuildFailed("libvirt does not know the guest %s" % uuid)
    now = state(connection, uuid)
    if now == "running":
        return False
    if now in PAUSED:
        failed_io = _is_paused_by_io_error(domain)
        _call("letting the guest go on", domain.resume if now == "paused" else domain.pMWakeup)
        if failed_io:
            _check_goes_on(domain, connection.getHostname())
        return True
    _call("starting the guest", domain.createWithFlags, 0, timeout=2 * CALL_TIMEOUT + _memory_seconds(domain))
    return True


def _memory_seconds(domain):
    """The time in which the memory of a guest is written to, or read from, a slow disk."""
    return _call("reading the memory's size", domain.maxMemory) / MEMORY_KIB_PER_SECOND


def pause(connection, uuid):
    """Stop the guest's CPUs."""
    _call("pausing the guest", find(connection, uuid).suspend)


def save(connection, uuid):
    """Write the guest's memory to a file that the next start reads, and end the guest."""
    domain = find(connection, uuid)
    keep_definition(connection, domain)
    _call("saving the guest's memory", domain.managedSave, 0, timeout=CALL_TIMEOUT + _memory_seconds(domain))


def save_beside(domain, path):
    """Write the memory of the paused guest to the file ``path``, and leave the guest paused. libvirt notes no snapshot of it."""
    library = require_libvirt()
    wanted = ElementTree.Element("domainsnapshot")
    ElementTree.SubElement(wanted, "memory", {"snapshot": "external", "file": path})
    disks = ElementTree.SubElement(wanted, "disks")
    for target in ElementTree.fromstring(definitions(domain)[0]).iterfind("devices/disk/target"):
        ElementTree.SubElement(disks, "disk", {"name": target.get("dev"), "snapshot": "no"})
    text, flags = ElementTree.tostring(wanted, encoding="unicode"), library.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
    timeout = CALL_TIMEOUT + _memory_seconds(domain)
    _call("saving the guest's memory", domain.snapshotCreateXML, text, flags, timeout=timeout)


def saved_definition(connection, path):
    """Return the definition of the guest whose memory is in the file ``path``."""
    return _call("reading the memory's file", connection.saveImageGetXMLDesc, path, 0)


def restore(connection, uuid, path):
    """Let the guest, which is off, go on with the memory in the file ``path``, as it is defined now. libvirt refuses memory of
    other devices."""
    domain, runs = find(connection, uuid), require_libvirt().VIR_DOMAIN_SAVE_RUNNING
    root = ElementTree.fromstring(_with_secrets("reading the definition", domain))
    saved = ElementTree.fromstring(saved_definition(connection, path))
    for part in CHOSEN_AT_START:
        for defined in root.findall(part):
            root.remove(defined)
        root.extend(saved.findall(part))
    text, timeout = ElementTree.tostring(root, encoding="unicode"), 2 * CALL_TIMEOUT + _memory_seconds(domain)
    _call("bringing the guest's memory back", connection.restoreFlags, path, text, runs, timeout=timeout)


def discard_memory(connection, uuid):
    """Remove the file with the guest's memory, if there is one."""
    if is_saved(connection, uuid):
        _call("removing the guest's memory", find(connection, uuid).managedSaveRemove, 0)


def retry_failed_io(domain):
    """Let a guest that QEMU has paused for a failed write go on, since the cause is gone: QEMU tries it again."""
    if _is_paused_by_io_error(domain):
        _call("letting the guest go on", domain.resume)


def _is_paused_by_io_error(domain):
    paused = [require_libvirt().VIR_DOMAIN_PAUSED, require_libvirt().VIR_DOMAIN_PAUSED_IOERROR]
    return _call("reading the state", domain.state)[:2] == paused


def _check_goes_on(domain, host):
    """Raise DiskIOError if QEMU, which retries at once what had failed, pauses the guest again."""
    until = time.monotonic() + GOES_ON
    while time.monotonic() < until:
        if _is_paused_by_io_error(domain):
            uuid = domain.UUIDString()
            raise DiskIOError(
                "the guest %s on %s is paused: its disk cannot be written or read, probably because its file system is full. "
                "It was resumed, and paused again at once" % (uuid, host),
                hint=state_hints.failing_disk(host, uuid),
                uuid=uuid,
                host=host,
            )
        time.sleep(POLL)


def stop(connection, uuid, grace, freeze=True):
    """Ask the guest to power off, repeatedly, for ``grace`` seconds, then end it. Return whether that was needed.
    A guest that is ended writes out its file systems before, if it has an agent, unless ``freeze`` is false."""
    domain = find(connection, uuid)
    if domain is None or not _is_on(domain):
        return False
    keep_definition(connection, domain)
    if _powers_off(domain, time.monotonic() + grace):
        return False
    if freeze:
        agent.freeze(domain)
    try:
        destroy(domain)
    except (BuildFailed, LibvirtTimeout):
        agent.thaw(domain)  # it goes on
        raise
    return True


def _powers_off(domain, until):
    """Ask the guest's agent once, and press the power button repeatedly. Return whether it is off before ``until``."""
    agent_was_asked, ask_again = False, 0
    while time.monotonic() < until:
        if time.monotonic() >= ask_again:
            if not agent_was_asked and agent.is_there(domain):
                agent_was_asked = True
                # half of the time at most: whatever its agent says, the guest may obey the button alone
                agent.shut_down(domain, min(SHUTDOWN_AGAIN, (until - time.monotonic()) / 2))
            _press_power_button(domain)
            ask_again = time.monotonic() + SHUTDOWN_AGAIN
        time.sleep(POLL)
        if not _is_on(domain):
            return True
    return False


def _is_on(domain):
    """Whether it is on. A guest that was undefined while it ran, even just now, is gone from libvirt once off."""
    return bool(_unless_gone("reading the state", domain.isActive))


def _press_power_button(domain):
    library = require_libvirt()
    try:
        Deadline(SHUTDOWN_AGAIN).call(
            domain.shutdownFlags, library.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN, what="asking to power off"
        )
    except (library.libvirtError, LibvirtTimeout):
        pass  # the guest is paused, hung or already off: it is ended after ``grace``


def destroy(domain):
    """End the guest at once; libvirt kills a QEMU that does not answer."""
    library = require_libvirt()
    try:
        Deadline(CALL_TIMEOUT).call(domain.destroy, what="ending the guest")
    except library.libvirtError as error:
        if error.get_error_code() not in (library.VIR_ERR_OPERATION_INVALID, library.VIR_ERR_NO_DOMAIN):
            raise BuildFailed("ending the guest: %s" % error)


def remove(connection, uuid):
    """End and undefine the guest with all that libvirt keeps for it. Return whether there was one."""
    domain = find(connection, uuid)
    try:
        if domain is not None:
            _remove(domain, uuid)
    except BuildFailed as error:
        if not _is_gone(error):
            raise
    return domain is not None


def _remove(domain, uuid):
    library = require_libvirt()
    if not is_managed(domain):
        raise InstanceExists(
            "the domain %s has the uuid %s, but neither berth's metadata nor its files, so it is left alone"
            % (domain.name(), uuid)
        )
    lasting = _call("reading the domain", domain.isPersistent)
    if _is_on(domain):
        destroy(domain)
    if not lasting:
        return
    flags = (
        library.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | library.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | library.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | library.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM  # it lies among the disks, and goes or stays with them
    )
    _call("undefining the domain", domain.undefineFlags, flags)
