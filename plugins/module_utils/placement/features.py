# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The features that a flavor and an image together ask for; a contradiction between them is an InvalidInput
(that of CPU policies is in numa.py).

The rules are those of nova.virt.hardware. A flavor says ``hw:name``, an image ``hw_name``. ``props`` are the known properties
of an image (model.image.known_properties).
"""

from __future__ import annotations

from typing import Any

from ..model.errors import InvalidInput
from ..model.guest_settings import is_true
from ..model.request_spec import Flavor

SECURE_BOOT = ("required", "disabled", "optional")
SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
USB_MODELS = ("qemu-xhci", "nec-xhci", "none")
MAXPHYSADDR_MODES = ("passthrough", "emulate")
ENCRYPTION_FORMATS = ("plain", "luks", "luksv2")
TPM_VERSIONS = ("1.2", "2.0")
TPM_MODELS = ("tpm-tis", "tpm-crb")
VIOMMU_MODELS = ("auto", "intel", "smmuv3", "virtio")
MOST_USB_PORTS = 15
# Models of memory encryption; those that need the guest's memory locked; those that need firmware without a store.
MEMORY_ENCRYPTION = ("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx")
LOCKS_MEMORY = ("amd-sev", "amd-sev-es")
STATELESS = ("amd-sev-snp", "intel-tdx")


def both(flavor: Flavor, props: dict, key: str, prefix: str = "hw") -> tuple[Any, Any]:
    """(the flavor's extra spec, the image's property) of one name."""
    return flavor.extra_specs.get("%s:%s" % (prefix, key)), props.get("%s_%s" % (prefix, key))


def _conflict(key: str, prefix: str, in_flavor: Any, in_image: Any) -> InvalidInput:
    return InvalidInput(
        "flavor.extra_specs.%s:%s" % (prefix, key),
        in_flavor,
        "the image's %s_%s is %r; both must agree" % (prefix, key, in_image),
    )


def one_of_both(flavor: Flavor, props: dict, key: str, prefix: str = "hw") -> Any:
    """Return the value of the flavor or of the image; two different ones are an error."""
    in_flavor, in_image = both(flavor, props, key, prefix)
    if in_flavor and in_image and in_flavor != in_image:
        raise _conflict(key, prefix, in_flavor, in_image)
    return in_flavor or in_image


def choice(flavor: Flavor, props: dict, key: str, choices: tuple[str, ...], prefix: str = "hw") -> Any:
    """Return the value of the flavor or of the image, one of ``choices``, or None."""
    value = one_of_both(flavor, props, key, prefix)
    if value and value not in choices:
        raise InvalidInput("%s:%s" % (prefix, key), value, "one of " + ", ".join(choices))
    return value


def flag(flavor: Flavor, props: dict, key: str) -> bool | None:
    """Return the truth value of the flavor or of the image, or None; two different ones are an error."""
    in_flavor, in_image = both(flavor, props, key)
    in_flavor = None if in_flavor is None else is_true(in_flavor)
    if in_flavor is not None and in_image is not None and in_flavor != in_image:
        raise _conflict(key, "hw", in_flavor, in_image)
    return in_image if in_flavor is None else in_flavor


def secure_boot(flavor: Flavor, props: dict) -> str | None:
    return choice(flavor, props, "secure_boot", SECURE_BOOT, prefix="os")


def vif_multiqueue(flavor: Flavor, props: dict) -> bool:
    """Whether multiqueue is asked for; never with one vCPU, where it has no effect."""
    return flavor.vcpus > 1 and bool(flag(flavor, props, "vif_multiqueue_enabled"))


def viommu(flavor: Flavor, props: dict) -> str | None:
    return choice(flavor, props, "viommu_model", VIOMMU_MODELS)


def stateless_firmware(props: dict) -> bool:
    """Whether stateless firmware is asked for; only UEFI can be stateless, other firmware ignores it."""
    return bool(props.get("hw_firmware_stateless")) and props.get("hw_firmware_type") == "uefi"


def tpm(flavor: Flavor, props: dict) -> tuple[str, str] | None:
    """(version, model) of the TPM."""
    version = choice(flavor, props, "tpm_version", TPM_VERSIONS)
    if version is None:
        return None
    model = choice(flavor, props, "tpm_model", TPM_MODELS) or TPM_MODELS[0]
    if version not in TPM_VERSIONS or (model == "tpm-crb" and version != "2.0"):
        raise InvalidInput("hw:tpm_version", version, "1.2 or 2.0, with model tpm-tis or (2.0 only) tpm-crb")
    return version, model


def memory_encryption(flavor: Flavor, props: dict) -> str | None:
    """Return the model of memory encryption, or None; InvalidInput if the image cannot work with it."""
    if not flag_of_either(flavor, props, "mem_encryption"):
        return None
    flag(flavor, props, "mem_encryption")
    in_flavor, in_image = both(flavor, props, "mem_encryption_model")
    if in_flavor is not None and in_image is not None and in_flavor != in_image:
        raise _conflict("mem_encryption_model", "hw", in_flavor, in_image)
    model = choice(flavor, props, "mem_encryption_model", MEMORY_ENCRYPTION) or MEMORY_ENCRYPTION[0]
    # Nova reads these two only from images
    firmware, machine = (
        both(flavor, props, key)[0] or both(flavor, props, key)[1] for key in ("firmware_type", "machine_type")
    )
    if firmware != "uefi":
        raise InvalidInput("hw_firmware_type", firmware, "uefi, as memory encryption is asked for")
    if machine is not None and "q35" not in machine:
        raise InvalidInput("hw_machine_type", machine, "q35, as memory encryption is asked for")
    if model in STATELESS and not stateless_firmware(props):
        raise InvalidInput("hw_firmware_stateless", False, "true, as memory encryption %s is asked for" % model)
    if model == "intel-tdx" and props.get("hw_video_model") != "none":
        raise InvalidInput(
            "hw_video_model", props.get("hw_video_model"), "none, as memory encryption %s shows none" % model
        )
    return model


def flag_of_either(flavor: Flavor, props: dict, key: str) -> bool:
    """Whether the flavor or the image asks for it."""
    in_flavor, in_image = both(flavor, props, key)
    return is_true(in_flavor) or bool(in_image)


def locked_memory(flavor: Flavor, props: dict) -> bool | None:
    """Whether the guest's memory is locked on the host. Asking for it needs a page size; some encryption implies it."""
    asked = flag(flavor, props, "locked_memory")
    if asked:
        if not any(both(flavor, props, "mem_page_size")):
            raise InvalidInput("hw:locked_memory", True, "needs hw:mem_page_size")
        return True
    return True if memory_encryption(flavor, props) in LOCKS_MEMORY else asked


def ephemeral_encryption(flavor: Flavor, props: dict) -> tuple[bool, str | None]:
    """(asked for, format)."""
    if not flag(flavor, props, "ephemeral_encryption"):
        return False, None
    return True, choice(flavor, props, "ephemeral_encryption_format", ENCRYPTION_FORMATS) or None


def usb_ports(flavor: Flavor, props: dict) -> int:
    count = one_of_both(flavor, props, "redirected_usb_ports") or 0
    return _whole("hw:redirected_usb_ports", count, 0, MOST_USB_PORTS)


def serial_ports(flavor: Flavor, props: dict) -> int:
    """Serial ports; an image may ask for fewer than the flavor allows."""
    in_flavor, in_image = both(flavor, props, "serial_port_count")
    allowed = _whole("hw:serial_port_count", in_flavor or 0)
    if allowed and in_image and in_image > allowed:
        raise InvalidInput("hw_serial_port_count", in_image, "at most the flavor's hw:serial_port_count=%d" % allowed)
    return in_image or allowed or 1


def _whole(field: str, value: Any, low: float = float("-inf"), high: float = float("inf")) -> int:
    try:
        number = int(value)
    except ValueError:
        raise InvalidInput(field, value, "a whole number")
    if not low <= number <= high:
        raise InvalidInput(field, value, "a whole number from %g to %g" % (low, high))
    return number


def cpu_topology(flavor: Flavor, props: dict) -> dict[str, tuple[int, int]]:
    """{sockets, cores, threads: (preferred or 0, at most)}: an image may lower the flavor's limits, never raise them."""
    parts, most, asked = ("sockets", "cores", "threads"), {}, ({}, {})
    for part in parts:
        in_flavor, in_image = _numbers(flavor, props, "cpu_max_" + part)
        if in_flavor and in_image > in_flavor:
            raise InvalidInput(
                "hw_cpu_max_" + part, in_image, "at most the flavor's hw:cpu_max_%s=%d" % (part, in_flavor)
            )
        most[part] = in_image or in_flavor or 65536
    for part in parts:
        asked[0][part], asked[1][part] = _numbers(flavor, props, "cpu_" + part)
    for part in parts:
        if asked[1][part] > most[part]:
            raise InvalidInput("hw_cpu_" + part, asked[1][part], "at most %d of flavor and image" % most[part])
    in_flavor, in_image = asked
    if any(in_flavor[part] > most[part] for part in parts):
        in_flavor = dict.fromkeys(parts, 0)
    chosen = in_image if any(in_image.values()) else in_flavor
    return {part: (chosen[part], most[part]) for part in parts}


def _numbers(flavor: Flavor, props: dict, key: str) -> tuple[int, int]:
    in_flavor, in_image = both(flavor, props, key)
    return _whole("hw:" + key, in_flavor or 0), in_image or 0


def check(flavor: Flavor, props: dict) -> None:
    """Raise InvalidInput if flavor and image contradict each other in any of these, as Nova's API does."""
    secure_boot(flavor, props)
    tpm(flavor, props)
    locked_memory(flavor, props)
    memory_encryption(flavor, props)
    viommu(flavor, props)
    ephemeral_encryption(flavor, props)
    flag(flavor, props, "virtio_packed_ring")
    flag(flavor, props, "pmu")
    vif_multiqueue(flavor, props)
    choice(flavor, props, "sound_model", SOUND_MODELS)
    choice(flavor, props, "usb_model", USB_MODELS)
    choice(flavor, props, "maxphysaddr_mode", MAXPHYSADDR_MODES)
    usb_ports(flavor, props)
    serial_ports(flavor, props)
    cpu_topology(flavor, props)
