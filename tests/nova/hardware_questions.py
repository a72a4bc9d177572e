# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions about NUMA, and about what flavor and image ask for: nova.virt.hardware and nova.objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import nova.conf
import translate
from ledger import CannotAsk, Ledger, ask
from nova.objects import image_meta as image_module
from nova.pci import stats as pci_stats
from nova.virt import hardware

from ansible_collections.berth.kvm.plugins.module_utils.model.cpu_list import parse_cpu_spec
from ansible_collections.berth.kvm.plugins.module_utils.model.guest_features import ImageProperties
from ansible_collections.berth.kvm.plugins.module_utils.model.image import known_properties
from ansible_collections.berth.kvm.plugins.module_utils.placement import features, numa, numa_usage, pci


def install(ledger: Ledger) -> None:
    for name, ours, theirs in CONSTRAINTS:
        ask(ledger, hardware, name, ours, theirs or _plain)
    ask(ledger, hardware, "parse_cpu_spec", lambda text: lambda: parse_cpu_spec(text))
    ask(ledger, hardware, "numa_get_constraints", _constraints, _topology)
    ask(ledger, hardware, "numa_fit_instance_to_host", _fit, _topology)
    ask(ledger, hardware, "_numa_fit_instance_cell", _fit_cell, _cell)
    ask(ledger, hardware, "_pack_instance_onto_cores", _pack, _cell)
    ask(ledger, hardware, "numa_usage_from_instance_numa", _usage, _host)
    ask(ledger, hardware, "_numa_cells_support_network_metadata", _network)
    ask(ledger, image_module.ImageMetaProps, "from_dict", _image, _image_props)


def _plain(result: Any, *_given: Any) -> Any:
    return result


def of_both(answer: Callable) -> Callable:
    """A question about a flavor and an image."""

    def ours(flavor: Any, image: Any, *_more: Any) -> Callable:
        read, props = translate.flavor(flavor), translate.props(image)
        return lambda: answer(read, props)

    return ours


def of_flavor(answer: Callable) -> Callable:
    """A question about a flavor alone."""

    def ours(flavor: Any) -> Callable:
        read = translate.flavor(flavor)
        return lambda: answer(read)

    return ours


def with_machine(answer: Callable) -> Callable:
    """A question about a flavor, an image, and perhaps the machine type of a host: here it is the image's."""

    def ours(flavor: Any, image: Any, machine: str | None = None) -> Callable:
        read, props = translate.flavor(flavor), translate.props(image)
        props = {**props, "hw_machine_type": machine} if machine else props
        return lambda: answer(read, props)

    return ours


def _stateless(image: Any) -> Callable:
    props = translate.props(image)
    return lambda: features.stateless_firmware(props)


def one_word(key: str, words: tuple[str, ...]) -> Callable:
    return of_both(lambda flavor, props: features.choice(flavor, props, key, words))


def one_flag(key: str) -> Callable:
    return of_both(lambda flavor, props: features.flag(flavor, props, key))


def _packed(flavor: Any, props: dict) -> bool:
    return bool(features.flag(flavor, props, "virtio_packed_ring"))


def _yes_or_no(found: Any, *_given: Any) -> bool:
    return bool(found)


def _sockets_cores_threads(found: Any, *_given: Any) -> dict:
    return {part: tuple(getattr(entry, part) for entry in found) for part in ("sockets", "cores", "threads")}


CONSTRAINTS: list[tuple[str, Callable, Callable | None]] = [
    ("get_cpu_policy_constraint", of_both(numa.cpu_policy), None),
    ("get_cpu_thread_policy_constraint", of_both(numa.cpu_thread_policy), None),
    ("get_realtime_cpu_constraint", of_both(numa.realtime_cpus), None),
    ("get_dedicated_cpu_constraint", of_flavor(numa.dedicated_cpus), None),
    ("get_emulator_thread_policy_constraint", of_flavor(numa.emulator_threads_policy), None),
    ("get_pci_numa_policy_constraint", of_both(numa.pci_numa_policy), None),
    ("get_vpmems", of_flavor(numa.vpmems), None),
    ("_get_numa_pagesize_constraint", of_both(numa.page_size), None),
    ("get_cpu_topology_constraints", of_both(features.cpu_topology), _sockets_cores_threads),
    ("get_locked_memory_constraint", with_machine(features.locked_memory), None),
    (
        "get_mem_encryption_constraint",
        with_machine(features.memory_encryption),
        lambda found, *_given: None if found is None else found.model,
    ),
    ("get_secure_boot_constraint", of_both(features.secure_boot), None),
    ("get_stateless_firmware_constraint", _stateless, _yes_or_no),
    ("get_vtpm_constraint", of_both(features.tpm), lambda found, *_given: found and (found.version, found.model)),
    ("get_vif_multiqueue_constraint", of_both(features.vif_multiqueue), None),
    ("get_packed_virtqueue_constraint", of_both(_packed), None),
    ("get_pmu_constraint", one_flag("pmu"), None),
    ("get_sound_model", one_word("sound_model", features.SOUND_MODELS), None),
    ("get_usb_model", one_word("usb_model", features.USB_MODELS), None),
    ("get_maxphysaddr_mode", one_word("maxphysaddr_mode", features.MAXPHYSADDR_MODES), None),
    ("get_redirected_usb_ports", of_both(features.usb_ports), None),
    ("get_number_of_serial_ports", of_both(features.serial_ports), None),
    (
        "get_ephemeral_encryption_constraint",
        of_both(lambda *both: features.ephemeral_encryption(*both)[0]),
        _yes_or_no,
    ),
]


# -- NUMA
def _topology(found: Any, *_given: Any) -> Any:
    """Nova's topology, or that of a stand-in, as a document."""
    return None if found is None else translate.instance_topology(found).to_document()


def _document(found: Any) -> Any:
    return found and found.to_document()


def _cell(found: Any, *_given: Any) -> Any:
    return None if found is None else translate.InstanceCell(translate.instance_cell(found)).to_document()


def _host(found: Any, *_given: Any) -> Any:
    return None if found is None else translate.host_topology(found).to_document()


def _constraints(flavor: Any, image: Any) -> Callable:
    read, props = translate.flavor(flavor), translate.props(image)
    return lambda: _document(numa.constraints(read, props))


def _fit(host: Any, instance: Any, mapping: Any, limits: Any, requests: Any, stats: Any) -> Callable:
    if mapping:
        raise CannotAsk("devices are resource providers of their own in Placement: a host here is one provider")
    if host is None or instance is None:
        raise CannotAsk("it has no topology: here nobody fits one that is not there")
    there, wanted = translate.host_topology(host), translate.instance_topology(instance)
    if isinstance(pci_stats.PciDeviceStats.support_requests, mock.NonCallableMock) or translate.is_stand_in(stats):
        raise CannotAsk("parts of Nova are replaced in it")
    asked, pools, told = translate.pci_requests(requests), translate.pools(stats), translate.limits(limits)
    packing = nova.conf.CONF.compute.packing_host_numa_cells_allocation_strategy

    def near(cells: Any) -> bool:
        return pci.supports(pools, asked, cells, there)

    return lambda: _document(numa.fit(there, wanted, told, asked, pools, near, packing))


def _fit_cell(host: Any, cell: Any, limits: Any, reserved: int) -> Callable:
    there = translate.HostTopology.from_document({"cells": [translate.host_cell(host)]}).cells[0]
    wanted, told = translate.InstanceCell(translate.instance_cell(cell)), translate.limits(limits)
    return lambda: _document(numa._fit_cell(there, wanted, told, reserved or 0, []))


def _pack(host: Any, cell: Any, reserved: int = 0) -> Callable:
    there = translate.HostTopology.from_document({"cells": [translate.host_cell(host)]}).cells[0]
    wanted = translate.InstanceCell(translate.instance_cell(cell))
    return lambda: _document(numa._pack(there, wanted, reserved or 0))


def _usage(host: Any, instance: Any, free: bool) -> Callable:
    if host is None or instance is None:
        raise CannotAsk("it has no topology: here nobody counts one that is not there")
    there, wanted = translate.host_topology(host), translate.instance_topology(instance)
    return lambda: _document((numa_usage.remove_usage if free else numa_usage.add_usage)(there, wanted))


def _network(host: Any, chosen: list, network: Any) -> Callable:
    there = translate.host_topology(host)
    cells = [translate.HostTopology.from_document({"cells": [translate.host_cell(entry)]}).cells[0] for entry in chosen]
    told = translate.network_metadata(network)
    return lambda: not told or numa._network_fits(there, cells, told)


# -- images
def _image(_cls: Any, written: dict) -> Callable:
    given = {name: value for name, value in written.items() if value is not None}
    return lambda: known_properties(ImageProperties().check(given, "properties"))


def _image_props(found: Any, *_given: Any) -> dict:
    return known_properties(ImageProperties().check(translate.properties(found), "properties"))
