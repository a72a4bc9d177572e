# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A catalog with one of each kind, for the tests of catalog and request."""

from __future__ import annotations

CHECKSUM = "sha256:" + "0" * 64


def variables():
    return {
        "berth_flavors": {
            "m1.tiny": {"vcpus": 1, "memory_mb": 512, "root_gb": 1},
            "m1.small": {"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "extra_specs": {"hw:numa_nodes": 2}},
            "old": {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "disabled": True},
            "secret": {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "projects": ["blue"]},
        },
        "berth_images": {
            "debian-12": {"url": "https://x/debian.qcow2", "checksum": CHECKSUM, "disk_format": "qcow2"},
            "big": {"url": "/srv/big.raw", "checksum": CHECKSUM, "disk_format": "raw", "min_ram": 1024, "min_disk": 10},
            "blue-only": {"url": "/srv/b.raw", "checksum": CHECKSUM, "disk_format": "raw", "projects": ["blue"]},
        },
        "berth_networks_defined": {
            "lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "mtu": 9000},
            "plain": {"type": "network", "source": "default"},
        },
        "berth_server_groups": {"web": {"policy": "anti-affinity", "rules": {"max_server_per_host": 2}}},
        "berth_aggregates": {
            "ssd": {"groups": ["fast"], "hosts": ["k9"], "availability_zone": "a", "metadata": {"ssd": True}}
        },
        "berth_pci_aliases": {"gpu": {"vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"}},
        "berth_quotas": {"*": {"cores": 20}, "blue": {"instances": 3}},
        "berth_placement": {"ram_weight_multiplier": 2.0},
    }
