# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's traits of a host, from what its guests can have. The tables contain the names of os-traits."""

from __future__ import annotations

from typing import Iterable, List, Tuple

# libvirt's name of a CPU feature -> the last part of HW_CPU_X86_*
X86_FEATURES = {
    "3dnow": ("3DNOW",),
    "abm": ("ABM",),
    "aes": ("AESNI",),
    "amd-no-ssb": ("AMD_NO_SSB",),
    "amd-ssbd": ("AMD_SSBD",),
    "amx-bf16": ("AMXBF16",),
    "amx-int8": ("AMXINT8",),
    "amx-tile": ("AMXTILE",),
    "avx": ("AVX",),
    "avx2": ("AVX2",),
    "avx512-vpopcntdq": ("AVX512VPOPCNTDQ",),
    "avx512bitalg": ("AVX512BITALG",),
    "avx512bw": ("AVX512BW",),
    "avx512cd": ("AVX512CD",),
    "avx512dq": ("AVX512DQ",),
    "avx512er": ("AVX512ER",),
    "avx512f": ("AVX512F",),
    "avx512ifma": ("AVX512IFMA",),
    "avx512pf": ("AVX512PF",),
    "avx512vbmi": ("AVX512VBMI",),
    "avx512vbmi2": ("AVX512VBMI2",),
    "avx512vl": ("AVX512VL",),
    "avx512vnni": ("AVX512VNNI",),
    "bmi1": ("BMI",),
    "bmi2": ("BMI2",),
    "f16c": ("F16C",),
    "fma": ("FMA3",),
    "fma4": ("FMA4",),
    "gfni": ("AVX512GFNI",),
    "ibpb": ("AMD_IBPB",),
    "md-clear": ("INTEL_MD_CLEAR",),
    "mmx": ("MMX",),
    "mpx": ("MPX",),
    "pcid": ("INTEL_PCID",),
    "pclmuldq": ("CLMUL",),
    "pdpe1gb": ("PDPE1GB",),
    "pni": ("SSE3",),
    "rtm": ("TSX",),
    "sha-ni": ("SHA",),
    "spec-ctrl": ("INTEL_SPEC_CTRL",),
    "ssbd": ("INTEL_SSBD",),
    "sse": ("SSE",),
    "sse2": ("SSE2",),
    "sse4.1": ("SSE41",),
    "sse4.2": ("SSE42",),
    "sse4a": ("SSE4A",),
    "ssse3": ("SSSE3",),
    "stibp": ("STIBP",),
    "svm": ("SVM", "AMD_SVM"),
    "tbm": ("TBM",),
    "vaes": ("AVX512VAES",),
    "virt-ssbd": ("AMD_VIRT_SSBD",),
    "vmx": ("VMX", "INTEL_VMX"),
    "vpclmulqdq": ("AVX512VPCLMULQDQ",),
    "xop": ("XOP",),
}

# (device, enum) of libvirt's domain capabilities -> value -> trait
DEVICES = {
    ("disk", "bus"): {
        "fdc": "COMPUTE_STORAGE_BUS_FDC",
        "ide": "COMPUTE_STORAGE_BUS_IDE",
        "sata": "COMPUTE_STORAGE_BUS_SATA",
        "scsi": "COMPUTE_STORAGE_BUS_SCSI",
        "usb": "COMPUTE_STORAGE_BUS_USB",
        "virtio": "COMPUTE_STORAGE_BUS_VIRTIO",
    },
    ("video", "modelType"): {
        "bochs": "COMPUTE_GRAPHICS_MODEL_BOCHS",
        "cirrus": "COMPUTE_GRAPHICS_MODEL_CIRRUS",
        "none": "COMPUTE_GRAPHICS_MODEL_NONE",
        "qxl": "COMPUTE_GRAPHICS_MODEL_QXL",
        "vga": "COMPUTE_GRAPHICS_MODEL_VGA",
        "virtio": "COMPUTE_GRAPHICS_MODEL_VIRTIO",
        "vmvga": "COMPUTE_GRAPHICS_MODEL_VMVGA",
    },
    ("tpm", "backendVersion"): {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"},
    # Whose secret protects a TPM's state: placement requires it for each TPM, as Nova does. Other values are refused.
    ("tpm", "backendModel"): {"emulator": "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"},
    ("tpm", "model"): {"tpm-crb": "COMPUTE_SECURITY_TPM_CRB", "tpm-tis": "COMPUTE_SECURITY_TPM_TIS"},
    ("os", "firmware"): {"bios": "COMPUTE_FIRMWARE_BIOS", "efi": "COMPUTE_FIRMWARE_UEFI"},
    ("loader", "secure"): {"yes": "COMPUTE_SECURITY_UEFI_SECURE_BOOT"},
}

ARCHITECTURES = {
    "aarch64": ("HW_ARCH_AARCH64", "COMPUTE_ARCH_AARCH64"),
    "i686": ("HW_ARCH_I686",),
    "ppc64le": ("HW_ARCH_PPC64LE", "COMPUTE_ARCH_PPC64LE"),
    "s390x": ("HW_ARCH_S390X", "COMPUTE_ARCH_S390X"),
    "x86_64": ("HW_ARCH_X86_64", "COMPUTE_ARCH_X86_64"),
}

# Versions as libvirt reports them: 8.3.0 and 7.0.0 are the first with a virtual IOMMU of model virtio.
VIRTIO_IOMMU = (8003000, 7000000)

# Network card models of every x86 QEMU; libvirt's domain capabilities do not list them.
X86_NETWORK_CARDS = ("VIRTIO", "E1000", "E1000E", "RTL8139")

# The facts contain the socket of each NUMA cell, by which devices can be chosen.
EVERY_HOST = ("COMPUTE_NODE", "COMPUTE_SOCKET_PCI_NUMA_AFFINITY")

# The image formats from which berth makes disks.
IMAGE_TYPES = tuple("COMPUTE_IMAGE_TYPE_" + kind for kind in ("QCOW2", "RAW", "VHDX", "VMDK"))


def cpu_traits(features: Iterable[str]) -> List[str]:
    return sorted("HW_CPU_X86_" + name for feature in features for name in X86_FEATURES.get(feature, ()))


def device_traits(enums) -> List[str]:
    """Return the traits of ``enums``, {(device, enum): values} from capabilities.parse_domain."""
    return sorted(
        trait for where, table in DEVICES.items() for value, trait in table.items() if value in enums.get(where, ())
    )


def viommu_traits(arch: str, versions: Tuple[int, int]) -> List[str]:
    """Return the traits of virtual IOMMUs, which domain capabilities do not list. ``versions``: of libvirt and QEMU."""
    own = {"x86_64": "INTEL", "aarch64": "SMMUV3"}.get(arch)
    virtio = ["VIRTIO", "AUTO"] if all(has >= least for has, least in zip(versions, VIRTIO_IOMMU)) else []
    return ["COMPUTE_VIOMMU_MODEL_" + model for model in ([own, *virtio] if own else [])]


def host_traits(arch, features, enums, threads, custom=(), encrypted_guests=0) -> List[str]:
    """Return all traits of a host. ``threads``: per CPU core; ``custom``: traits from the host's settings."""
    traits = {*EVERY_HOST, *IMAGE_TYPES, *ARCHITECTURES.get(arch, ()), *device_traits(enums), *custom}
    if arch in ("i686", "x86_64"):
        traits.update(cpu_traits(features))
        traits.update("COMPUTE_NET_VIF_MODEL_" + model for model in X86_NETWORK_CARDS)
    if encrypted_guests:
        traits.add("HW_CPU_X86_AMD_SEV")
    if threads > 1:
        traits.add("HW_CPU_HYPERTHREADING")
    return sorted(traits)
