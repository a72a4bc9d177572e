# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: instances
version_added: 0.1.0
short_description: The instances that exist, read from the KVM hosts
description:
  - Gives every instance that O(kvm_inventory)'s hosts hold as an inventory host, so that C(--limit) and AWX know
    instances that were made on the command line or by a survey.
  - Runs the playbook C(berth.kvm.host_facts) with that inventory. A host that does not answer within
    C(berth_host_timeout) seconds is a warning, and its instances are missing. If no host answers, the source is not parsed.
  - That playbook gets the passwords of vaults that the command has, wherever they came from, but not its other options. What
    it takes to log in, such as a password that C(--ask-pass) or C(--ask-become-pass) would ask for, belongs into
    O(kvm_inventory), in a vault if need be.
  - O(kvm_inventory) may be the directory of this file. The KVM hosts are then read without it.
  - A cache that is damaged, that another version of the collection wrote, or that was made for other hosts is made again. A
    host that did not answer when the cache was made stays missing until it expires or C(--flush-cache).
  - Domains that berth did not make are not listed.
  - A host chooses no names. An instance is left out, with a warning that names the host, if its name is none that berth
    gives, if its uuid is not that of its project and name, if the name is C(localhost) or that of a group, of a KVM host
    or of another host of the inventory that has no C(berth_flavor), and if two hosts say that they own it.
  - No variable of a request is set. The actual state is in C(berth_present_flavor), C(berth_present_project), C(berth_present_batch),
    C(berth_present_server_group), C(berth_present_zone) and C(berth_present_address), with C(berth_kvm_host), C(berth_power_state),
    C(berth_phase) and C(berth_uuid); what is not known is an empty text. Playbooks that move, start, stop or delete take an
    instance that has only these as well; C(create) leaves it alone, and a resize needs C(-e berth_flavor).
  - C(ansible_host) is the address of C(berth_present_address), of the source C(berth_present_address_source). That is the one
    that C(berth_access_ip_v4) or C(berth_access_ip_v6) said when the instance was made (C(access)), else the fixed one of its
    record (C(static)), else a lease of libvirt's (C(lease)), a neighbour of the host (C(arp)) or what the guest's
    agent says (C(agent)). It is not set where the inventory has one for the instance, and where another host of the
    inventory, a KVM host by its own word, or another instance has the same address. C(arp) and C(agent) are the guest's word, and
    it may name a machine that the inventory does not know. Keep C(host_key_checking) on, or set C(ansible_host) yourself.
  - An instance that could not be made is listed, too, in the group C(berth_state_error) with C(berth_error), of C(code), C(message),
    C(operation) and C(at), where this controller was asked for it; it is on no host. One whose move was refused has C(berth_error) as well.
    Both until the next success or a delete, for 30 days.
  - An instance that the inventory describes is known as such where this source comes after the others, so name it last, or so
    that its file name sorts last in a directory.
  - The name of the file ends in C(berth.yml) or C(berth.yaml).
  - An instance is never put into a group that has KVM hosts, whatever C(groups) and C(keyed_groups) say.
author:
  - The berth.kvm authors (!UNKNOWN)
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Must be C(berth.kvm.instances).
    required: true
    choices: [berth.kvm.instances]
  kvm_inventory:
    description: The inventory with the KVM hosts; a path, relative to this file, or a list of paths, as several C(-i) are.
    type: list
    elements: str
    required: true
  pattern:
    description: Which of its hosts to read.
    type: str
    default: kvm_hosts
  become:
    description: Whether to become root on the KVM hosts.
    type: bool
    default: true
  default_groups:
    description:
      - Whether to make the groups C(berth_state_X), C(berth_flavor_X), C(berth_zone_X), C(berth_host_X), C(berth_project_X),
        C(berth_batch_X) and C(berth_server_group_X) of what instances are now. A batch is what one C(berth_count) made. The zone
        is that of C(berth_aggregates) in O(kvm_inventory), else the one that the instance's record keeps.
    type: bool
    default: true
    version_added: 1.0.0
  group:
    description: The group that all instances are put into.
    type: str
    default: berth_instances_found
  failed_requests:
    description:
      - Whether instances whose creation was refused, and which no host has, are listed too, with C(berth_error), for 30 days.
        They are no machines. Those that the inventory describes have C(berth_error) in any case.
    type: bool
    default: false
    version_added: 1.0.0
requirements:
  - ansible-core 2.19 or newer
"""

EXAMPLES = r"""
# instances.berth.yml
plugin: berth.kvm.instances
kvm_inventory: hosts.yml
keyed_groups:
  - key: berth_kvm_host
    prefix: "on"
"""

import fnmatch
import os

from ansible import constants as C  # noqa: N812 -- Ansible's usual name for them
from ansible.errors import AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.inventory.helpers import get_group_vars
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from ..module_utils.conductor.dynamic_inventory import NotListed, failed, listed
from ..module_utils.model.collection_version import COLLECTION_VERSION
from ..module_utils.model.unknown_names import did_you_mean
from ..plugin_utils import remembered_failures
from ..plugin_utils.read_kvm_hosts import begun, is_begun, read_hosts
from ..plugin_utils.screen import warn
from ..plugin_utils.whose_fleet import Fleet

ROOTS = {"all", "ungrouped"}
MOST_WARNINGS = 50
# PREFIX of the groups berth_PREFIX_VALUE: the variable that has the value
DEFAULT_GROUPS = {
    "state": "berth_power_state",
    "flavor": "berth_present_flavor",
    "zone": "berth_present_zone",
    "host": "berth_kvm_host",
    "batch": "berth_present_batch",
    "project": "berth_present_project",
    "server_group": "berth_present_server_group",
}


def _is_meant(path):
    """Whether a YAML file of any name says that it is for this plugin."""
    try:
        with open(path, encoding="utf-8") as stream:
            return path.endswith((".yml", ".yaml")) and "plugin: berth.kvm.instances" in stream.read(4096)
    except (OSError, ValueError):
        return False


class Names:
    """What names mean in this inventory and in that of the KVM hosts."""

    def __init__(self, inventory, fleet, pattern, loader):
        self._inventories = (inventory, fleet._inventory)
        self._loader = loader
        self._found = {}
        self.kvm_hosts = {host.name for host in fleet.list_hosts(pattern)}
        self._patterns = [part.partition("[")[0] for part in split_host_pattern(pattern) if not part.startswith("!")]

    def known(self, name):
        """Return the variables of an instance that they describe, None for a new name; see
        conductor/dynamic_inventory.py."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name):
        found = None
        for inventory in self._inventories:
            if name in inventory.groups:
                raise NotListed("a group of the inventory has that name")
            if name in self.kvm_hosts:
                raise NotListed("a KVM host has that name")
            if name in inventory.hosts:
                found = self._variables(inventory, inventory.hosts[name])
                if "berth_flavor" not in found:
                    raise NotListed("a host of the inventory without berth_flavor has that name")
        return found

    def _variables(self, inventory, host):
        """Return a host's variables from inventory files and files next to them, as Ansible's constructed does."""
        values = combine_vars(get_group_vars(host.get_groups()), host.get_vars())
        for entities in (host.get_groups(), [host]):
            more = get_vars_from_inventory_sources(self._loader, inventory.processed_sources, entities, "all")
            values = combine_vars(values, more)
        return values

    def addresses(self):
        """Return the addresses of all machines in both inventories, whichever file has them."""
        return {
            str(self._variables(inventory, host).get("ansible_host", host.name))
            for inventory in self._inventories
            for host in inventory.hosts.values()
        }

    def groups_of_kvm_hosts(self):
        """Return the groups that have KVM hosts, and those whose hosts the pattern makes KVM hosts, even if empty."""
        having = {
            group.name
            for inventory in self._inventories
            for host in self.kvm_hosts
            if host in inventory.hosts
            for group in inventory.hosts[host].get_groups()
        }
        below = {
            child.name
            for inventory in self._inventories
            for group in inventory.groups.values()
            if any(fnmatch.fnmatch(group.name, pattern.lstrip("&")) for pattern in self._patterns)
            for child in group.get_descendants(include_self=True)
        }
        return (having | below) - ROOTS


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "berth.kvm.instances"

    def verify_file(self, path):
        if not super().verify_file(path):
            return False
        if not path.endswith(("berth.yml", "berth.yaml")) and _is_meant(path):
            raise AnsibleParserError(
                "%s names the plugin berth.kvm.instances, but its name does not end in berth.yml or berth.yaml, such as "
                "instances.berth.yml. Rename it" % path
            )
        return path.endswith(("berth.yml", "berth.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._check_options(path, self._read_config_data(path))
        folder = os.path.dirname(os.path.abspath(path))
        sources = [os.path.join(folder, os.path.expanduser(entry)) for entry in self.get_option("kvm_inventory")]
        for source in sources:
            if not os.path.exists(source):
                raise AnsibleParserError("kvm_inventory: %s does not exist" % source)
        if is_begun():
            return  # these are the KVM hosts of this file, which finds itself among them: they have all they need
        with begun():
            fleet = InventoryManager(loader=loader, sources=sources)
        self._check_pattern(fleet, sources)
        report = self._report(path, sources, cache)
        self._add(report, Names(inventory, fleet, self.get_option("pattern"), loader))

    def _check_options(self, path, given):
        """Ansible ignores an option that there is not."""
        known = {"plugin", *C.config.get_configuration_definitions("inventory", self._load_name)}
        for name in sorted(set(given) - known):
            raise AnsibleParserError("%s: there is no option %s. %s" % (path, name, did_you_mean(name, known)))

    def _check_pattern(self, fleet, sources):
        pattern = self.get_option("pattern")
        if not fleet.list_hosts(pattern):
            groups = set(fleet.groups) - ROOTS
            told = (pattern, ", ".join(sources), did_you_mean(pattern, groups) if groups else "It has no group")
            raise AnsibleParserError("pattern: %s selects no host of kvm_inventory %s. %s" % told)

    def _report(self, path, sources, cache):
        """Return what the hosts of ``sources`` tell, or told before if the cache has that."""
        pattern, become = self.get_option("pattern"), self.get_option("become")
        if not self.get_option("cache"):
            return read_hosts(sources, pattern, become, self.loader)
        key = self.get_cache_key(path)
        asked = {"version": COLLECTION_VERSION, "sources": sources, "pattern": pattern}
        kept = self._kept(key) if cache else None
        if not isinstance(kept, dict) or kept.get("asked") != asked:
            kept = {"asked": asked, "report": read_hosts(sources, pattern, become, self.loader)}
            self._cache[key] = kept
        return kept["report"]

    def _kept(self, key):
        try:
            return self._cache.get(key)
        except Exception:  # each cache plugin, and what reads its text, fails in its own way
            return None

    def _add(self, report, names):
        for host, reason in sorted(report["verdicts"].items()):
            warn("Host %s is left out: %s" % (host, reason))
        taken = {*names.addresses(), *(report.get("addresses") or {}).values()}
        found, left_out = listed(report["hosts"], names.known, taken)
        for error in left_out[:MOST_WARNINGS]:
            warn(str(error))
        if len(left_out) > MOST_WARNINGS:
            warn("%d more instances are left out" % (len(left_out) - MOST_WARNINGS))
        group = self.inventory.add_group(self.get_option("group"))
        forbidden = names.groups_of_kvm_hosts()
        for name, variables in found.items():
            self.inventory.add_host(name, group=group)
            for key, value in variables.items():
                self.inventory.set_variable(name, key, value)
            if self.get_option("default_groups"):
                self._add_to_default_groups(name, variables)
            known = names.known(name) or {"berth_flavor": variables["berth_present_flavor"]}
            self._construct(name, {**known, **variables})
            self._keep_out(self.inventory.hosts[name], forbidden)
        self._add_failed(names, found, group, Fleet(report.get("machines") or dict.fromkeys(names.kvm_hosts, {})))

    def _add_failed(self, names, found, group, fleet):
        """Add instances that failed on this controller and are on no host, so that no host knows them."""
        requests = remembered_failures.known(fleet).values()
        for name, variables in failed(requests, names.known, found).items():
            if name not in found and names.known(name) is None and not self.get_option("failed_requests"):
                continue
            self.inventory.add_host(name, group=group)
            for key, value in variables.items():
                self.inventory.set_variable(name, key, value)
            if self.get_option("default_groups") and name not in found:
                self.inventory.add_host(name, group=self.inventory.add_group("berth_state_error"))

    def _add_to_default_groups(self, name, variables):
        for prefix, variable in DEFAULT_GROUPS.items():
            if variables[variable]:
                group = to_safe_group_name("berth_%s_%s" % (prefix, variables[variable]), force=True, silent=True)
                self.inventory.add_host(name, group=self.inventory.add_group(group))

    def _construct(self, name, variables):
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)

    def _keep_out(self, host, forbidden):
        """Keep an instance out of groups of KVM hosts: a keyed group's name may come from what a host reports."""
        for group in list(host.get_groups()):
            if group.name in forbidden and group.remove_host(host):
                warn("Instance %s is kept out of group %s, which has KVM hosts" % (host.name, group.name))
