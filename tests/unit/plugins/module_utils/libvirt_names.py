# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The constants and the error of the fake libvirt, by libvirt's own names and numbers."""

from __future__ import annotations

import types

# libvirt's virDomainState and, for a guest that is off, virDomainShutoffReason
RUNNING, PAUSED, SHUTOFF, CRASHED = 1, 3, 5, 6
UNKNOWN, SHUT_DOWN, DESTROYED, CRASH, MIGRATED, SAVED, FAILED = 0, 1, 2, 3, 4, 5, 6
BY_USER, IO_ERROR = 1, 5  # virDomainPausedReason


class libvirtError(Exception):  # noqa: N801, N818 -- libvirt's own name
    def __init__(self, code, message, domain=0, int1=-1):
        super().__init__(message)
        self.code, self.domain, self.int1 = code, domain, int1

    def get_error_code(self):
        return self.code

    def get_error_domain(self):
        return self.domain

    def get_int1(self):
        return self.int1


CONSTANTS = {
    "VIR_ERR_NO_DOMAIN": 42,
    "VIR_ERR_NO_SUPPORT": 3,
    "VIR_ERR_SYSTEM_ERROR": 38,
    "VIR_ERR_NO_NWFILTER": 62,
    "VIR_CONNECT_LIST_NETWORKS_ACTIVE": 2,
    "VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV": 2,
    "VIR_ERR_OPERATION_INVALID": 55,
    "VIR_ERR_NO_STORAGE_POOL": 49,
    "VIR_ERR_OPERATION_FAILED": 9,
    "VIR_ERR_HOOK_SCRIPT_FAILED": 70,
    "VIR_ERR_XML_ERROR": 27,
    "VIR_ERR_CONFIG_UNSUPPORTED": 67,
    "VIR_ERR_XML_INVALID_SCHEMA": 92,
    "VIR_FROM_RPC": 7,
    "VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE": 2,
    "VIR_CONNECT_LIST_DOMAINS_TRANSIENT": 8,
    "VIR_DOMAIN_DEFINE_VALIDATE": 1,
    "VIR_DOMAIN_XML_SECURE": 1,
    "VIR_DOMAIN_XML_INACTIVE": 2,
    "VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN": 1,
    "VIR_DOMAIN_SHUTDOWN_GUEST_AGENT": 2,
    "VIR_DOMAIN_UNDEFINE_MANAGED_SAVE": 1,
    "VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA": 2,
    "VIR_DOMAIN_UNDEFINE_KEEP_NVRAM": 8,
    "VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA": 16,
    "VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY": 2,
    "VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA": 16,
    "VIR_DOMAIN_SAVE_RUNNING": 2,
    "VIR_DOMAIN_JOB_NONE": 0,
    "VIR_DOMAIN_JOB_UNBOUNDED": 2,
    "VIR_DOMAIN_SHUTOFF_SHUTDOWN": SHUT_DOWN,
    "VIR_DOMAIN_SHUTOFF_DESTROYED": DESTROYED,
    "VIR_DOMAIN_SHUTOFF_CRASHED": CRASH,
    "VIR_DOMAIN_SHUTOFF_FAILED": FAILED,
    "VIR_DOMAIN_SHUTOFF_SAVED": SAVED,
    "VIR_DOMAIN_AFFECT_LIVE": 1,
    "VIR_DOMAIN_AFFECT_CONFIG": 2,
    "VIR_DOMAIN_BLOCK_RESIZE_BYTES": 1,
    "VIR_DOMAIN_METADATA_ELEMENT": 2,
    "VIR_DOMAIN_METADATA_TITLE": 1,
    "VIR_DOMAIN_STATS_STATE": 1,
    "VIR_DOMAIN_PAUSED": PAUSED,
    "VIR_DOMAIN_PAUSED_IOERROR": IO_ERROR,
    "VIR_DOMAIN_PAUSED_USER": BY_USER,
    "VIR_DOMAIN_SHUTOFF": SHUTOFF,
    "VIR_DOMAIN_SHUTOFF_MIGRATED": MIGRATED,
    "VIR_DOMAIN_CONTROL_OCCUPIED": 2,
    "VIR_ERR_OPERATION_TIMEOUT": 68,
}


def library():
    """What ``import libvirt`` would give, for compute.connection.libvirt."""
    return types.SimpleNamespace(libvirtError=libvirtError, **CONSTANTS)
