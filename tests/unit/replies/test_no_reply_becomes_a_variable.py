# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No reply becomes a variable: whole playbooks against hosts that set every variable that there is, in every reply.

What the hosts are asked with, and what the controller signs, is byte for byte what it is without that.
"""

from __future__ import annotations

import concurrent.futures
import json
import re

import good
import pytest
from cryptography import x509
from fake_fleet import ROOT, play

from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import CATALOG, INSTANCE

pytestmark = pytest.mark.long

OF_ANSIBLE = (
    "ansible_become", "ansible_connection", "ansible_forks", "ansible_host", "ansible_limit", "ansible_play_hosts",
    "ansible_play_hosts_all", "ansible_play_batch", "ansible_python_interpreter", "ansible_user", "group_names", "groups",
    "hostvars", "inventory_hostname", "item", "omit", "play_hosts", "discovered_interpreter_python", "ansible_facts",
)  # fmt: skip
# What a liar would set them to, where it knows what they are for.
CHOSEN = {
    "create_host": "h3", "delete_hosts": ["h3"], "berth_target_host": "h3", "berth_locked": True, "berth_flavor": "small",
    "berth_ca_directory": "/nowhere/at/all", "berth_host_certificate_days": 3650, "ansible_host": "192.0.2.66",
    "berth_host_certificate_names": ["h2", "owned"], "ansible_python_interpreter": "/bin/false", "berth_lost_hosts": ["h2"],
    "move_plan": {"sequence": "delete_there", "uuid": "x", "source": "h2", "destination": "h2", "views": {}},
    "berth_host_packages": True, "berth_host_pool": "owned", "move_destination": "h3", "berth_host_certificates": False,
}  # fmt: skip
RUNS = {
    "prepare": ["prepare_hosts", "-e", "berth_host_libvirt_service=libvirtd"],
    "create": ["create", "--limit", "new-1"],
    "resize": ["resize", "--limit", "at-rest-h1"],
    "stop": ["stop", "--limit", "at-rest-h2"],
    "delete": ["delete", "--limit", "at-rest-h3"],
    "host_facts": ["host_facts"],
    "take_over": [
        "take_over",
        "--limit",
        "new-1",
        "-e",
        "berth_lost_hosts=h9",
        "-e",
        "berth_disks_of=33333333-3c6e-5d59-9d0b-3a1c9d7f1e2a",
    ],
}


def names_read():
    """Every variable name in playbooks and roles, and those that the plugins read."""
    found = {*CATALOG, *INSTANCE, *OF_ANSIBLE}
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]:
        found |= set(re.findall(r"\b(?:__)?[a-z]+(?:_[a-z]+)+\b", path.read_text("utf-8")))
    for folder in ("action", "plugin_utils", "module_utils", "inventory"):
        for path in (ROOT / "plugins" / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            found |= set(re.findall(r"\"((?:__)?(?:berth|move|create|delete|kvm_host|ansible)_[a-z_]+)\"", text))
    return sorted(found)


def hostile():
    """A reply that sets them all, by their names and by what Ansible makes of names in facts."""
    values = {name: CHOSEN.get(name, "h3") for name in names_read()}
    facts = {
        **values,
        **{"ansible_" + name: value for name, value in values.items() if not name.startswith("ansible_")},
    }
    del facts["berth_host"], facts["ansible_berth_host"]
    return {
        "ansible_facts": facts,
        "add_host": {"host_name": "owned", "groups": ["kvm_hosts", "berth_requested"], "host_vars": facts},
        "_ansible_facts_cacheable": True,
        "warnings": ["\x1b[2Jowned"],
    }


def without_nonces(lines):
    """The same whatever the nonces of a run are: each is called by its turn; a certificate by what it says."""
    turns = {}

    def turn(found):
        return "nonce-%d" % turns.setdefault(found.group(), len(turns))

    text = re.sub(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----(\\n)?", certificate, "\n".join(lines))
    return re.sub(r"\b(?:r-[0-9a-f]{8}|[0-9a-f]{32}|[0-9a-f]{64})\b", turn, text)


def certificate(found):
    read = x509.load_pem_x509_certificate(found.group().replace("\\n", "\n").encode())
    try:
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = ()
    days = (read.not_valid_after_utc - read.not_valid_before_utc).days
    return "certificate for %s, %d days" % (sorted(str(name.value) for name in names), days)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Every playbook with hosts that only reply, and with hosts that set variables."""
    folder, evil = tmp_path_factory.mktemp("runs"), hostile()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {
            (name, kind): pool.submit(play, folder / name / kind, playbook, extra)
            for name, playbook in RUNS.items()
            for kind, extra in (("plain", None), ("hostile", evil))
        }
    return {key: future.result() for key, future in futures.items()}


# host -> modules that the plain run has to get to, so that the comparison says something
REACHED = {
    "prepare": {"h1": {"host_system", "host_prepare", "host_certificates", "systemd_service"}},
    "create": {"h1": {"host_facts", "rescan"}},
    "resize": {"h1": {"host_facts", "migration"}},
    "stop": {"h2": {"instance"}},
    "delete": {"h3": {"instance"}},
    "host_facts": {"h1": {"host_facts"}},
    "take_over": {"h1": {"host_facts", "rescan", "build_instances"}},
}


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_run_asks_hosts_the_same_whatever_variables_their_replies_set(name, outcomes):
    plain, evil = outcomes[name, "plain"], outcomes[name, "hostile"]
    for host, modules in REACHED[name].items():
        assert modules <= {json.loads(line)["module"] for line in plain["asked"][host]}, plain["said"][-3000:]
    assert plain["rc"] == 0, plain["said"][-3000:]
    assert evil["rc"] == plain["rc"], evil["said"][-3000:]
    for host in good.HOSTS:
        assert without_nonces(evil["asked"][host]) == without_nonces(plain["asked"][host])
    assert "\x1b" not in evil["said"] and not re.search(r"^owned\b", evil["said"], re.MULTILINE)


def test_what_users_set_in_the_inventory_counts(outcomes):
    """Public settings stay settable: certificates are for the names and days of the inventory, the settings reach the host."""
    for kind in ("plain", "hostile"):
        asked = without_nonces(outcomes["prepare", kind]["asked"]["h1"])
        assert "certificate for ['h1', 'kvm.example'], 99 days" in asked
        assert '"reserved_host_cpus": 1' in asked
        assert outcomes["prepare", kind]["ca"]


def test_all_names_that_the_collection_reads_are_tried():
    names = set(names_read())
    assert len(names) > 150
    assert {
        "__move_done",
        "delete_changed_disks",
        "berth_ca_directory",
        "__berth_facts",
        "berth_flavor",
        "berth_locked",
    } <= names
