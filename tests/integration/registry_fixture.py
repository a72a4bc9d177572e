# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A registry in a real etcd that playbooks reach over TLS, as a controller does."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))  # behind, as there is a conftest.py in both
import etcd_process  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import (  # noqa: E402
    Scan,
    Transact,
    Write,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.plugin_utils import authority, registry_access  # noqa: E402

IS_HERE = etcd_process.IS_HERE


class Registry:
    """``engine``: what reads and writes it for the test; ``variables``: of the runs that use it; ``members``: its processes."""

    def __init__(self, members, directory):
        self.members = members
        self.engine = registry_access.engine(members.members, str(directory))
        where = "etcd://%s" % ",".join(map(str, members.members))
        self.variables = {"berth_registry": where, "berth_ca_directory": str(directory)}

    def read(self, key):
        found = self.engine.transact(Transact(reads=(key,)))["found"].get(key)
        return json.loads(found.value) if found else None

    def write(self, key, document):
        value = None if document is None else json.dumps(document).encode()
        self.engine.transact(Transact(writes=(Write(key, value),)))

    def keys(self, prefix):
        return list(self.engine.scan(Scan(prefix))["found"])

    def owners(self):
        """Instance -> the uuid of the host that owns it."""
        found = self.engine.scan(Scan(keys.INSTANCES))["found"].values()
        entries = [json.loads(each.value) for each in found]
        return {entry["name"]: entry["owner"] for entry in entries if entry["owner"]}


@pytest.fixture(scope="module", name="registry")
def of_one_member(tmp_path_factory):
    with over_tls(tmp_path_factory.mktemp("registry")) as found:
        yield found


@contextlib.contextmanager
def over_tls(top):
    """A Registry of one member, whose files are in ``top``."""
    made = authority.Authority(str(top / "ca"), registry_access.AUTHORITY)
    more = (*etcd_process.secured(made, top), "--unsafe-no-fsync", "--log-level=error")
    members = etcd_process.Members(top, 1, *more, scheme="https")
    members.start()
    try:
        found = Registry(members, top / "ca")
        members.wait(found.engine)
        yield found
    finally:
        members.kill()


def playing(lab, path, registry):
    """play(playbook, *argv, **variables) on the inventory ``path``, over the registry, or over ``over``: none. ``play.lab``."""

    def play(playbook, *argv, check=True, over=registry, **variables):
        given = {**(over.variables if over else {}), **variables}
        return lab.ansible_playbook("berth.kvm." + playbook, *argv, inventory=[path], extra_vars=given, check=check)

    play.lab = lab
    return play
