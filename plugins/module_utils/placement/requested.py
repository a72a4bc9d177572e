# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request asks of Placement: traits, and amounts of resource classes such as the GiB of all disks together (swap is
rounded up, and a root disk counts only if the instance does not boot from a volume).

The rules are those of nova.scheduler.utils.ResourceRequest. Amounts: VCPU, PCPU, MEMORY_MB (MiB), DISK_GB (GiB), and
whatever ``resources:CLASS`` names.
"""

from __future__ import annotations

import copy
import re

from ..model.pools import DISK
from ..model.vgpus import VGPU
from . import features, numa

STANDARD_CLASSES = frozenset(
    "VCPU MEMORY_MB DISK_GB PCI_DEVICE SRIOV_NET_VF NUMA_SOCKET NUMA_CORE NUMA_THREAD NUMA_MEMORY_MB IPV4_ADDRESS VGPU "
    "VGPU_DISPLAY_HEAD NET_BW_EGR_KILOBIT_PER_SEC NET_BW_IGR_KILOBIT_PER_SEC PCPU MEM_ENCRYPTION_CONTEXT FPGA PGPU "
    "NET_PACKET_RATE_KILOPACKET_PER_SEC NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC".split()
)
_KEY = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$")
_ENCRYPTION_TRAITS = {
    "amd-sev": "HW_CPU_X86_AMD_SEV",
    "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES",
    "amd-sev-snp": "HW_CPU_X86_AMD_SEV_SNP",
    "intel-tdx": "HW_CPU_X86_INTEL_TDX",
}


class Group:
    """One group of a request: all of it comes from one provider (here: from the host)."""

    __slots__ = ("resources", "required", "forbidden")

    def __init__(self):
        self.resources, self.required, self.forbidden = {}, set(), set()

    def add_resource(self, name, amount):
        if not (name.startswith("CUSTOM_") or name in STANDARD_CLASSES):
            return
        try:
            amount = int(amount)
        except ValueError:
            return
        if amount >= 0:
            self.resources[name] = amount

    def with_disks_as(self, name):
        other = copy.copy(self)
        other.resources = {name if each == DISK else each: amount for each, amount in self.resources.items()}
        return other

    def with_vgpus_as(self, name, required, forbidden):
        other = copy.copy(self)
        other.resources = {name if each == VGPU else each: amount for each, amount in self.resources.items()}
        other.required, other.forbidden = required, forbidden
        return other

    def add_trait(self, name, kind):
        if kind == "required":
            self.required.add(name)
        elif kind == "forbidden":
            self.forbidden.add(name)


class Requested:
    """The groups of a request by suffix (None: the one without), their policy, and whether CPUs are pinned."""

    def __init__(self):
        self.groups = {}
        self.group_policy = None
        self.pinned = False
        # Set when the request is complete.
        self.amounts = {}
        self.required = frozenset()
        self.forbidden = frozenset()
        self.unanswerable = None

    def with_disks_as(self, name):
        """Return this request with another resource class in place of DISK_GB."""
        if name == DISK or DISK not in self.amounts:
            return self
        return self._with_groups({suffix: group.with_disks_as(name) for suffix, group in self.groups.items()})

    def vgpu_group(self):
        """Return the suffix and the Group that asks for vGPUs, or (None, None)."""
        return next(((suffix, group) for suffix, group in self.groups.items() if VGPU in group.resources), (None, None))

    def with_vgpus_as(self, name, traits):
        """Return this request with its vGPUs of another resource class, that of a parent with ``traits``. The host must
        have the required traits that the parent lacks; those of a numbered group must all be the parent's."""
        suffix, group = self.vgpu_group()
        required, forbidden = (set(), set()) if suffix else (group.required - traits, group.forbidden)
        return self._with_groups({**self.groups, suffix: group.with_vgpus_as(name, required, forbidden)})

    def _with_groups(self, groups):
        other = copy.copy(self)
        other.groups = groups
        other._sum_up()
        return other

    def group(self, suffix=None):
        return self.groups.setdefault(suffix, Group())

    def merged(self):
        total = {}
        for group in self.groups.values():
            for name, amount in group.resources.items():
                total[name] = total.get(name, 0) + amount
        return total

    def finish(self):
        """Drop what is zero and sum up; every group must fit on the host by itself and all together."""
        for suffix, group in list(self.groups.items()):
            group.resources = {name: amount for name, amount in group.resources.items() if amount}
            if not (group.resources or group.required or group.forbidden):
                del self.groups[suffix]
        self._sum_up()
        self.unanswerable = self._without_answer()
        return self

    def _without_answer(self):
        """Return why Placement would have no answer, or None."""
        if not self.groups:
            return "the extra specs of the flavor set every amount to 0"
        for suffix, group in self.groups.items():
            if not group.resources:
                return "the flavor has traits and no amount in resources%s:CLASS" % (suffix or "")
        suffixed = sum(1 for suffix in self.groups if suffix)
        if suffixed > 1 and self.group_policy == "isolate":
            return (
                "group_policy=isolate asks for a provider of its own for each of %d groups; a host is one provider"
                % suffixed
            )
        if suffixed > 1 and self.group_policy != "none":
            return "%d numbered resource groups need group_policy=none or isolate in the flavor" % suffixed
        if sum(VGPU in group.resources for group in self.groups.values()) > 1:
            return "only one group of a request has VGPU: all vGPUs of an instance are of one GPU"
        return None

    def _sum_up(self):
        self.amounts = self.merged()
        self.required = frozenset(trait for group in self.groups.values() for trait in group.required)
        self.forbidden = frozenset(trait for group in self.groups.values() for trait in group.forbidden)


def requested(spec, pin=True):
    """Return the Requested of a spec. ``pin`` false asks for VCPU instead of PCPU (Nova's fallback query)."""
    flavor, props = spec.flavor, spec.image_props
    request = Requested()
    for key, value in flavor.extra_specs.items():
        if key == "group_policy" and value in ("none", "isolate"):
            request.group_policy = value
        match = _KEY.match(key)
        if match:
            kind, suffix, name = match.groups()
            if kind == "resources":
                request.group(suffix).add_resource(name, value)
            else:
                request.group(suffix).add_trait(name, value)
    for trait in props.get("traits_required", ()):
        request.group().add_trait(trait, "required")
    if pin:
        _add_pinning(request, flavor, props)
    else:
        request.pinned = numa.cpu_policy(flavor, props) == "dedicated"
    merged = request.merged()
    if "VCPU" not in merged and "PCPU" not in merged:
        request.group().add_resource("VCPU", flavor.vcpus)
    if "MEMORY_MB" not in merged:
        request.group().add_resource("MEMORY_MB", flavor.memory_mb)
    of_flavor = request.group().resources.get(DISK, 0) if DISK in merged else disk_gb(spec)
    request.group().add_resource(DISK, of_flavor + spec.data_gb)
    _add_devices(request, flavor, props)
    return request.finish()


def disk_gb(spec):
    """Return the GiB that the flavor needs: root (not of a volume-backed instance), ephemeral, swap rounded up."""
    flavor = spec.flavor
    return flavor.ephemeral_gb + -(-flavor.swap // 1024) + (0 if spec.is_bfv else flavor.root_gb)


def _add_pinning(request, flavor, props):
    policy = numa.cpu_policy(flavor, props)
    request.pinned = policy == "dedicated"
    if policy in ("dedicated", "mixed"):
        pinned = flavor.vcpus
        if policy == "mixed":
            pinned = len(numa.dedicated_cpus(flavor) or numa.realtime_cpus(flavor, props) or ())
            request.group().add_resource("VCPU", flavor.vcpus - pinned)
        request.group().add_resource("PCPU", pinned + (1 if numa.emulator_threads_policy(flavor) == "isolate" else 0))
    kind = {"isolate": "forbidden", "require": "required"}.get(numa.cpu_thread_policy(flavor, props))
    if kind:
        request.group().add_trait("HW_CPU_HYPERTHREADING", kind)


def _add_devices(request, flavor, props):
    """Add the traits and resource classes that follow from the requested devices and firmware."""

    def add(trait):
        request.group().add_trait(trait, "required")

    encryption = features.memory_encryption(flavor, props)
    if encryption:
        request.group().add_resource("MEM_ENCRYPTION_CONTEXT", 1)
        add(_ENCRYPTION_TRAITS[encryption])
    labels = ["CUSTOM_PMEM_NAMESPACE_" + re.sub(r"[^A-Z0-9]", "_", label.upper()) for label in numa.vpmems(flavor)]
    for label in set(labels):
        request.group().add_resource(label, labels.count(label))
    tpm = features.tpm(flavor, props)
    if tpm:
        version, model = tpm
        add("COMPUTE_SECURITY_TPM_CRB" if model == "tpm-crb" else "COMPUTE_SECURITY_TPM_TIS")
        add("COMPUTE_SECURITY_TPM_2_0" if version == "2.0" else "COMPUTE_SECURITY_TPM_1_2")
    viommu = features.viommu(flavor, props)
    if viommu:
        add("COMPUTE_VIOMMU_MODEL_" + viommu.upper())
    if numa.pci_numa_policy(flavor, props) == "socket":
        add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    if features.secure_boot(flavor, props) == "required":
        add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    mode = features.choice(flavor, props, "maxphysaddr_mode", features.MAXPHYSADDR_MODES)
    if mode:
        add("COMPUTE_ADDRESS_SPACE_PASSTHROUGH" if mode == "passthrough" else "COMPUTE_ADDRESS_SPACE_EMULATED")
    if features.stateless_firmware(props):
        add("COMPUTE_SECURITY_STATELESS_FIRMWARE")
