# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent to a host for a module: Ansible packs each file that the module reaches. A host keeps it and gets it once for each
version of the collection, or at every run where it can keep nothing. So a module reaches what it needs."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from test_architecture import PLUGINS, SOURCES, imports  # noqa: E402

# Our own part of what is sent for a module, in units of 1,000 bytes. Ansible's own part, about 169 of them, comes to it.
MOST = {
    "backup_store": 156,
    "build_instances": 453,
    "cached_image": 154,
    "claim": 377,
    "group_members": 140,
    "host_certificates": 135,
    "host_clean": 199,
    "host_facts": 408,
    "host_maintenance": 86,
    "host_prepare": 231,
    "host_system": 3,
    "instance": 576,
    "instance_backup": 470,
    "instance_copy": 380,
    "instance_info": 298,
    "migration": 608,
    "outage_unit": 53,
    "registry_member": 54,
    "rescan": 135,
    "volume": 422,
    "volume_info": 102,
}
CLAIMING = {"claim", "instance", "migration", "volume"}
DEFINING = {"build_instances", "instance", "instance_backup", "instance_copy", "migration"}
# File -> the modules that need it on a host, and why the others do not.
ONLY_FOR = {
    "module_utils/model/catalog.py": (set(), "the controller reads the catalog, hosts get the request"),
    "module_utils/model/catalog_schema.py": (set(), "the controller reads the catalog, hosts get the request"),
    "module_utils/model/host_document.py": (set(), "the controller checks what hosts tell"),
    "module_utils/placement/capacity.py": (CLAIMING, "only a claim takes room"),
    "module_utils/placement/numa.py": (CLAIMING, "what is used of NUMA cells is in numa_usage.py"),
    "module_utils/compute/host/facts.py": (CLAIMING | {"host_facts"}, "the others need a part of it at most"),
    "module_utils/compute/guest/domain_xml.py": (DEFINING, "what its readers need is in terms.py"),
    "module_utils/compute/guest/seed.py": (
        DEFINING,
        "only a build writes a seed",
    ),
    "module_utils/compute/disk/image.py": (
        DEFINING | {"cached_image", "host_facts", "host_prepare", "instance_info", "volume"},
        "who knows an instance's disks has it, the others never read an image",
    ),
    "module_utils/compute/move/moving_host.py": ({"migration"}, "who only looks at a host has onlooker.py"),
    "module_utils/compute/move/precopy.py": (
        {"migration"},
        "who only looks at a host copies nothing",
    ),
    "module_utils/compute/move/live.py": ({"migration"}, "the state of a guest is read in onlooker.py"),
}


def modules():
    """The names of those that run on hosts."""
    return sorted(
        name.split("/")[1][: -len(".py")]
        for name in SOURCES
        if name.startswith("modules/") and any(package == "ansible" for _file, package, _line in imports(name))
    )


def reached(module):
    """The files of ours that are sent for a module, with the package files of their directories."""
    todo, seen = ["modules/%s.py" % module], set()
    while todo:
        name = todo.pop()
        if name in SOURCES and name not in seen:
            seen.add(name)
            todo += [target for target, _package, _line in imports(name)]
    return seen


def sent(name):
    """Bytes of a file in the archive that is sent, as text of base64: compressed, with its two entries of 76 bytes and its name."""
    path = "ansible_collections/berth/kvm/plugins/" + name
    return (len(zlib.compress((PLUGINS / name).read_bytes())) + 76 + 2 * len(path)) * 4 // 3


def test_what_a_host_gets_for_a_module_that_it_has_kept_is_small():
    """The text of kept_code.py; Ansible's wrapper without the archive is 4 KB, and the arguments come to it."""
    assert (PLUGINS / "module_utils/compute/kept_code.py").stat().st_size <= 10_000


def test_each_module_that_runs_on_hosts_has_its_bound():
    assert set(MOST) == set(modules())


@pytest.mark.parametrize("module", modules())
def test_a_module_sends_no_more_than_its_bound(module):
    """Where a feature needs more, raise the bound; where an import brought more than it needs, cut that."""
    files = sorted(((sent(name), name) for name in reached(module)), reverse=True)
    total = sum(size for size, _name in files)
    assert total <= MOST[module] * 1000, (total, files[:15])


@pytest.mark.parametrize("file", ONLY_FOR)
def test_a_file_is_sent_only_for_the_modules_that_need_it(file):
    needed_by, why = ONLY_FOR[file]
    assert file in SOURCES
    assert {module for module in modules() if file in reached(module)} == needed_by, why
