# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest whose memory its host cannot read: AMD SEV, as in Nova's libvirt driver."""

from __future__ import annotations

from .elements import child

# No debugging, no key shared with another guest, no migration to another platform or one without SEV: 1 + 2 + 16 + 32.
POLICY = "0x0033"


def encrypt(root):
    """Change a whole definition. libvirt asks the host where the encryption bit is."""
    devices = root.find("devices")
    # libvirt would add it without a driver element
    child(devices, "controller", type="virtio-serial", index=0)
    for device in devices:
        through_iommu(device)
    security = child(root, "launchSecurity", type="sev")
    child(security, "policy", POLICY)


def through_iommu(device):
    """Have a virtio device use the guest's address translation: without it, the device would read encrypted memory."""
    if _is_virtio(device):
        driver = device.find("driver")
        if driver is None:
            driver = child(device, "driver")
        driver.set("iommu", "on")


def _is_virtio(device):
    target, model = device.find("target"), device.find("model")
    if device.tag == "disk":
        return target.get("bus") == "virtio"
    if device.tag == "interface":
        return model is not None and model.get("type") == "virtio"
    if device.tag == "controller":
        return device.get("type") == "virtio-serial" or (device.get("model") or "").startswith("virtio")
    if device.tag == "video":
        return model.get("type") == "virtio"
    return device.tag in ("rng", "memballoon") and device.get("model") == "virtio"
