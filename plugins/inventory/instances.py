# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: instances
short_description: The instances that exist, read from the KVM hosts
description:
  - Gives every instance that O(kvm_inventory)'s hosts hold as an inventory host, so that C(--limit) and AWX know
    instances that were made on the command line or by a survey.
  - Runs the module M(berth.kvm.host_facts) over the connections of that inventory. A host that does not answer is a
    warning, and its instances are missing.
  - Domains that berth did not make are not listed.
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
    description: The inventory with the KVM hosts; a path, relative to this file.
    type: path
    required: true
  pattern:
    description: Which of its hosts to read.
    type: str
    default: kvm_hosts
  become:
    description: Whether to become root on the KVM hosts.
    type: bool
    default: true
  group:
    description: The group that all instances are put into.
    type: str
    default: berth_instances_found
requirements:
  - ansible-core >= 2.19
"""

EXAMPLES = r"""
# instances.berth.yml
plugin: berth.kvm.instances
kvm_inventory: hosts.yml
keyed_groups:
  - key: berth_kvm_host
    prefix: "on"
"""

import json
import os
import subprocess
import sys
import tempfile

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ..module_utils.model.errors import BerthError
from ..module_utils.model.host_document import check
from ..module_utils.model.record import OWN
from ..plugin_utils.screen import warn


def instances_of(host, document):
    """Instance name -> its variables, of a checked host document; only what the host owns, so that a move lists once."""
    found = {}
    for instance in document["instances"]:
        if instance.get("foreign") or instance.get("role") != OWN:
            continue
        found[instance["name"]] = {
            "berth_uuid": instance["uuid"],
            "berth_kvm_host": host,
            "berth_project": instance.get("project_id"),
            "berth_flavor": (instance.get("flavor") or {}).get("name"),
            "berth_server_group": instance.get("group"),
            "berth_power_state": instance.get("power_state"),
            "berth_phase": instance.get("phase"),
        }
    return found


def ansible_command():
    """The ansible program that belongs to the running interpreter."""
    beside = os.path.join(os.path.dirname(sys.executable), "ansible")
    return beside if os.access(beside, os.X_OK) else "ansible"


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "berth.kvm.instances"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("berth.yml", "berth.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        key = self.get_cache_key(path)
        found = None
        if cache and self.get_option("cache"):
            found = self._cache.get(key)
        if found is None:
            found = self._read_hosts(os.path.dirname(os.path.abspath(path)))
            if self.get_option("cache"):
                self._cache[key] = found
        self._add(found)

    def _read_hosts(self, folder):
        source = os.path.join(folder, self.get_option("kvm_inventory"))
        if not os.path.exists(source):
            raise AnsibleParserError("kvm_inventory: %s does not exist" % source)
        with tempfile.TemporaryDirectory(prefix="berth-") as results:
            self._ask(source, results)
            found = {}
            for host in sorted(os.listdir(results)):
                found.update(self._read_result(host, os.path.join(results, host)))
            return found

    def _ask(self, source, results):
        argv = [ansible_command(), "-i", source, "-m", "berth.kvm.host_facts", "-t", results]
        if self.get_option("become"):
            argv.append("--become")
        done = subprocess.run(
            argv + ["--", self.get_option("pattern")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if not os.listdir(results):
            raise AnsibleParserError(
                "no host of %s answered: %s" % (source, (done.stderr or done.stdout).strip()[-500:])
            )

    def _read_result(self, host, path):
        with open(path, encoding="utf-8") as stream:
            result = json.load(stream)
        try:
            document = check(result["ansible_facts"]["berth_host"])
        except (KeyError, TypeError):
            warn("%s gave no facts: %s" % (host, result.get("msg")))
            return {}
        except BerthError as error:
            warn("%s: %s" % (host, error))
            return {}
        return instances_of(host, document)

    def _add(self, found):
        group = self.inventory.add_group(self.get_option("group"))
        strict = self.get_option("strict")
        for name, variables in found.items():
            self.inventory.add_host(name, group=group)
            for key, value in variables.items():
                self.inventory.set_variable(name, key, value)
            self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)
