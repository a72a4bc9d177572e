# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No reply becomes a variable: whole playbooks against hosts that set every variable that there is, in every reply.

What the hosts are asked with, and what the controller signs, is byte for byte what it is without that.
"""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import good
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.plugin_utils.controller import CATALOG, INSTANCE

ROOT = good.HERE.parents[2]
# A setting that users make, in the inventory and with -e; a host must not, and these must go on to count.
SETTINGS = {
    "kvm_host_certificate_days": 99,
    "kvm_host_certificate_names": ["kvm.example"],
    "berth_host_reserved_host_cpus": 1,
}
OF_ANSIBLE = (
    "ansible_become", "ansible_connection", "ansible_forks", "ansible_host", "ansible_limit", "ansible_play_hosts",
    "ansible_play_hosts_all", "ansible_play_batch", "ansible_python_interpreter", "ansible_user", "group_names", "groups",
    "hostvars", "inventory_hostname", "item", "omit", "play_hosts", "discovered_interpreter_python", "ansible_facts",
)  # fmt: skip
# What a liar would set them to, where it knows what they are for.
CHOSEN = {
    "create_host": "h3", "delete_hosts": ["h3"], "berth_target_host": "h3", "berth_locked": True, "berth_flavor": "small",
    "kvm_host_ca_directory": "/nowhere/at/all", "kvm_host_certificate_days": 3650, "ansible_host": "192.0.2.66",
    "kvm_host_certificate_names": ["h2", "owned"], "ansible_python_interpreter": "/bin/false", "berth_lost_hosts": ["h2"],
    "move_plan": {"sequence": "delete_there", "uuid": "x", "source": "h2", "destination": "h2", "views": {}},
    "kvm_host_packages": True, "berth_host_pool": "owned", "move_destination": "h3", "kvm_host_certificates": False,
}  # fmt: skip
RUNS = {
    "prepare": ["prepare_hosts", "-e", "kvm_host_libvirt_service=libvirtd"],
    "create": ["create", "--limit", "new-1"],
    "resize": ["resize", "--limit", "at-rest-h1"],
    "stop": ["stop", "--limit", "at-rest-h2"],
    "delete": ["delete", "--limit", "at-rest-h3"],
    "host_facts": ["host_facts"],
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


# ---- hosts and inventory -------------------------------------------------------------------------------------------------


def moving(host):
    """What a host says in each step of a resize of at-rest-h1."""
    begun = good.moved_record(host if host in ("h1", "h2") else "h2")
    wanted = good.spec("at-rest-h1")
    changes = {"uuid": wanted["uuid"], "name": "at-rest-h1", "spec": wanted}
    changes["migration"] = {**begun.migration, "old_spec": wanted, "new_spec": good.spec("at-rest-h1", "big")}
    said = good.migration_of(host)[1]["move"]
    extra = {name: said[name] for name in ("disks", "targets", "transfer", "sent")}
    return {"changed": True, "move": good.view(begun.replace(**changes), host, **extra), "token": {}, "took": {}}


def replies(host):
    made = {module: make(host)[1] for module, make in good.KINDS.values() if make is not good.failure}
    facts = good.host_facts(host)[1]
    at_rest = [move for move in facts["moves"] if move["name"].startswith("at-rest")]
    document = facts["ansible_facts"]["berth_host"]
    instances = [instance for instance in document["instances"] if instance["name"].startswith("at-rest")]
    document.update(instances=instances, num_instances=1)
    scan = {**made["rescan"], "notes": {}}
    scan["instances"] = [instance for instance in scan["instances"] if instance["name"].startswith("at-rest")]
    held = {kind: {"request": request(), "certificate": "", "authority": ""} for kind in ("libvirt", "qemu")}
    return {
        **made,
        "host_facts": {**facts, "moves": at_rest, "notes": {}},
        "rescan": scan,
        "migration": moving(host),
        "host_certificates": {**made["host_certificates"], "held": held},
    }


@functools.cache
def request():
    """A request of a host, the same in all runs so that what is signed may be compared."""
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    signed = unsigned.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def build(folder, extra, refuse=None):
    """The hosts, each with its Python, and the inventory of a run; ``refuse``: host -> steps of a move that fail there."""
    hosts = {}
    for host in good.HOSTS:
        directory = folder / host
        directory.mkdir(parents=True)
        (directory / "good.json").write_text(json.dumps(replies(host)))
        if extra:
            (directory / "extra.json").write_text(json.dumps(extra))
        (directory / "refuse.json").write_text(json.dumps((refuse or {}).get(host, [])))
        python = directory / "python"
        lines = ["#!" + sys.executable, "import sys", "sys.path.insert(0, %r)" % str(good.HERE), "import fake_host"]
        python.write_text("\n".join([*lines, "fake_host.main(%r)" % str(directory), ""]))
        python.chmod(0o755)
        hosts[host] = {"ansible_python_interpreter": str(python)}
    instance = {"berth_image": "guest", "berth_server_group": "web", "berth_flavor": "small"}
    instances = {"new-1": {}, "at-rest-h1": {"berth_flavor": "big"}, "at-rest-h2": {}, "at-rest-h3": {}}
    of_hosts = {"ansible_connection": "local", "ansible_pipelining": True, "ansible_become": False, **SETTINGS}
    of_hosts["kvm_host_ca_directory"] = str(folder / "ca")
    groups = {
        "kvm_hosts": {"hosts": hosts, "vars": of_hosts},
        "instances": {"hosts": instances, "vars": instance},
    }
    inventory = folder / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"vars": good.CATALOG, "children": groups}}))
    return inventory


def play(folder, playbook, extra, refuse=None):
    """What each host was asked with, and the end of what the run printed."""
    inventory = build(folder, extra, refuse)
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }  # fmt: skip
    command = [
        Path(sys.executable).parent / "ansible-playbook",
        "-i",
        inventory,
        "berth.kvm." + playbook[0],
        *playbook[1:],
    ]
    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    asked = {host: folder / host / "asked.jsonl" for host in good.HOSTS}
    lines = {host: path.read_text().splitlines() if path.exists() else [] for host, path in asked.items()}
    return {"asked": lines, "rc": done.returncode, "said": done.stdout + done.stderr, "ca": (folder / "ca").exists()}


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
        "move_plan",
        "create_host",
        "kvm_host_ca_directory",
        "__berth_facts",
        "berth_flavor",
        "berth_locked",
    } <= names
