# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This host, for work on an instance: its store, its libvirt, its settings, its pools."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, Optional
from xml.etree import ElementTree

from ...model import host_hints
from ...model.host_settings import HostSettings
from ...model.pools import DIRECTORIES
from ..connection import connect, require_libvirt
from ..errors import BuildFailed, GuestNotSupported, HostNotPrepared
from ..guest import gate, terms
from ..record import state_directory
from ..record.store import Store
from . import capabilities
from .settings import PATH, check_uuid, load, no_member

CONFINING = ("selinux", "apparmor")


@dataclasses.dataclass
class Host:
    """``connection`` is opened at first use, so that reading the store needs no libvirt. ``settings_path`` is the
    settings' file, if they come from one."""

    store: Store
    settings: HostSettings
    connect: Any = connect
    run_dir: str = gate.RUN_DIR
    hook: str = gate.HOOK
    settings_path: Optional[str] = None

    @classmethod
    def here(cls, action):
        return cls(store=Store(action=action), settings=load(), settings_path=PATH)

    @functools.cached_property
    def connection(self):
        return self.connect()

    @functools.cached_property
    def capabilities(self):
        return capabilities.parse_host(self.connection.getCapabilities())

    def identify(self):
        """Return the host's pinned uuid."""
        check_uuid(self.settings, self.capabilities.uuid)
        return self.capabilities.uuid

    def require_member(self):
        """Under the host's lock, raise HostNotPrepared if remove_host removed the host, even just now."""
        if self.settings_path and not os.path.exists(self.settings_path):
            raise no_member(self.connection.getHostname())

    def require_prepared(self):
        """Raise HostNotPrepared if guests may not be built or started: no settings, no gate, no confinement of QEMU."""
        name = self.connection.getHostname()
        if not self.settings.prepared:
            raise HostNotPrepared("the host %s is not prepared" % name, hint=host_hints.prepare_host(name))
        state_directory.check(self.store)
        gate.check(name, self.hook, self.run_dir)
        self.identify()
        check_confinement(self.capabilities.security_models, self.settings.security_driver_none_ok)

    def pool_path(self, name=None):
        """Return the directory of a pool, which must be an active pool of type dir, fs or netfs."""
        name = name or self.settings.pool
        library = require_libvirt()
        try:
            pool = self.connection.storagePoolLookupByName(name)
            root = ElementTree.fromstring(pool.XMLDesc(0))
            active = pool.isActive()
        except library.libvirtError as error:
            raise self._no_pool(name, "storage pool %s: %s" % (name, error))
        if not active or root.get("type") not in DIRECTORIES:
            raise self._no_pool(name, "storage pool %s is not an active directory" % name)
        return os.path.normpath(root.findtext("target/path"))

    def _no_pool(self, name, message):
        hint = host_hints.start_pool(self.connection.getHostname(), name, name == self.settings.pool)
        return HostNotPrepared(message, field="pool", value=name, hint=hint)

    def pool_of(self, record):
        """Return the directory of the pool that has the instance's disks."""
        return self.pool_path(record.spec.get("pool"))

    def pool_paths(self):
        """Return the directories of all active pools."""
        library = require_libvirt()
        pools = self.connection.listAllStoragePools(library.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
        roots = [ElementTree.fromstring(pool.XMLDesc(0)) for pool in pools]
        return [os.path.normpath(root.findtext("target/path")) for root in roots if root.get("type") in DIRECTORIES]

    def has_pool(self, name):
        """Whether libvirt knows the pool, active or not."""
        library = require_libvirt()
        try:
            self.connection.storagePoolLookupByName(name)
        except library.libvirtError as error:
            if error.get_error_code() == library.VIR_ERR_NO_STORAGE_POOL:
                return False
            raise HostNotPrepared("storage pool %s: %s" % (name, error), field="pool", value=name)
        return True

    @functools.cached_property
    def guest_type(self):
        """What guests here can have, of the domain type that works best."""
        types = capabilities.domain_types(self.connection, self.settings.domain_type, self.capabilities.arch)
        if not types:
            raise BuildFailed("this host's QEMU runs no guest of type %s" % self.settings.domain_type)
        return types[0]

    @property
    def domain_type(self):
        return self.guest_type.domain_type

    def cpu_model(self):
        """Return the CPU model of guests here, None for host-model. Raise CpuModelNotUsable if it cannot be had."""
        wanted = self.settings.cpu_models
        return capabilities.named_model(self.guest_type, wanted) if wanted else None

    def check_machine(self, machine):
        """Raise GuestNotSupported if QEMU here lacks the machine type; None is libvirt's choice."""
        known = self.capabilities.machine_types
        if machine is not None and machine not in known:
            raise GuestNotSupported(
                "this host has no machine type %s" % machine, field="hw_machine_type", value=machine, known=list(known)
            )

    def for_guests(self, pool):
        """Return what a definition needs to know of the host."""
        return terms.Host(self.domain_type, self.capabilities.arch, self.pool_path(pool), self.cpu_model())


def check_confinement(models, none_ok):
    """Refuse QEMU without SELinux or AppArmor around it, unless the settings allow that."""
    if not set(models) & set(CONFINING) and not none_ok:
        raise HostNotPrepared(
            "libvirt confines no guest here (security_driver is none)",
            field="security_driver_none_ok",
            value=False,
            rule="SELinux or AppArmor for QEMU, or security_driver_none_ok",
            hint=host_hints.confine_guests(),
        )
