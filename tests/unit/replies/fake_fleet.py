# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole playbooks against hosts that only reply: see fake_host.py and good.py for what they say."""

from __future__ import annotations

import atexit
import copy
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import good
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts

ROOT = good.HERE.parents[2]
sys.path.insert(0, str(ROOT / "lab"))

from warm import Warm  # noqa: E402

OF_LOST = {"uuid": good.spec("new-1")["uuid"], "owner": "33333333-3c6e-5d59-9d0b-3a1c9d7f1e2a"}  # what hosts see of it
# A setting that users make, in the inventory and with -e; a host must not, and these must go on to count.
SETTINGS = {
    "berth_host_certificate_days": 99,
    "berth_host_certificate_names": ["kvm.example"],
    "berth_host_reserved_host_cpus": 1,
}


def moving(host, name="at-rest-h1"):
    """What a host says in each step of a resize of this instance."""
    begun = good.moved_record(host if host in ("h1", "h2") else "h2")
    wanted = good.spec(name)
    changes = {"uuid": wanted["uuid"], "name": name, "spec": wanted}
    changes["migration"] = {**begun.migration, "old_spec": wanted, "new_spec": good.spec(name, "big")}
    said = good.migration_of(host)[1]["move"]
    extra = {name: said[name] for name in ("disks", "targets", "transfer", "sent")}
    return {"changed": True, "move": good.view(begun.replace(**changes), host, **extra), "token": {}, "took": {}}


def replies(host):
    made = {module: make(host)[1] for module, make in good.KINDS.values() if make is not good.failure}
    facts = good.host_facts(host)[1]
    at_rest = [move for move in facts["moves"] if move["name"].startswith("at-rest")]
    instances = at_rest_on(host)
    facts["ansible_facts"]["berth_host"].update(instances=instances, num_instances=1)
    scan = {**made["rescan"], "notes": {}}
    scan["instances"] = [instance for instance in scan["instances"] if instance["name"].startswith("at-rest")]
    moves = [moving(host, "at-rest-%s" % of)["move"] for of in good.HOSTS]
    held = {kind: {"request": request(), "certificate": "", "authority": ""} for kind in ("libvirt", "qemu")}
    return {
        **made,
        "host_facts": {**facts, "moves": at_rest, "notes": {}, "digests": digests(), "attached": [OF_LOST]},
        "rescan": scan,
        "migration": {**moving(host), "moves": {move["uuid"]: move for move in moves}},
        "host_certificates": {**made["host_certificates"], "held": held},
    }


def refusal(host):
    """What a host replies that cannot write what it is told."""
    return {"failed": True, "msg": "StateNotWritten: no room on %s" % host, "instances": []}


def down(tree, host):
    """Nobody answers at the host's address."""
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    tree["all"]["children"]["kvm_hosts"]["hosts"][host].update(gone)


def at_rest_on(host):
    document = good.host_facts(host)[1]["ansible_facts"]["berth_host"]
    return [instance for instance in document["instances"] if instance["name"].startswith("at-rest")]


@functools.cache
def digests():
    """Of what each host remembers: where all of these instances are."""
    notes = whereabouts.Notes()
    known = {
        good.UUIDS[host]: {each["uuid"]: each.get("generation", [0, 0]) for each in at_rest_on(host)}
        for host in ("h1", "h2", "h3")
    }
    notes.take_in({"hosts": {uuid: host for host, uuid in good.UUIDS.items()}, "known": known})
    return notes.digests()


@functools.cache
def request():
    """A request of a host, the same in all runs so that what is signed may be compared."""
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    signed = unsigned.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def build(folder, extra, refuse=None, change=None, replies=replies, ended=None):
    """The hosts, each with its Python, and the inventory of a run; ``refuse``: host -> steps of a move that fail there;
    ``change``: what is done to the inventory before it is written; ``replies``: host -> its replies by module;
    ``ended``: (host -> steps that say that the move has just ended, and whether always; host -> its facts from then on)."""
    hosts = {}
    for host in good.HOSTS:
        directory = folder / host
        directory.mkdir(parents=True)
        (directory / "good.json").write_text(json.dumps(replies(host)))
        if extra:
            (directory / "extra.json").write_text(json.dumps(extra))
        (directory / "refuse.json").write_text(json.dumps((refuse or {}).get(host, [])))
        if ended:
            (directory / "ended.json").write_text(json.dumps(ended[0].get(host)))
            (directory / "after.json").write_text(json.dumps(ended[1](host)))
        python = directory / "python"
        lines = ["#!" + sys.executable, "import sys", "sys.path.insert(0, %r)" % str(good.HERE), "import fake_host"]
        python.write_text("\n".join([*lines, "fake_host.main(%r)" % str(directory), ""]))
        python.chmod(0o755)
        hosts[host] = {"ansible_python_interpreter": str(python)}
    instance = {"berth_image": "guest", "berth_server_group": "web", "berth_flavor": "small"}
    instances = {"new-1": {}, "at-rest-h1": {"berth_flavor": "big"}, "at-rest-h2": {}, "at-rest-h3": {}}
    of_hosts = {"ansible_connection": "local", "ansible_pipelining": True, "ansible_become": False, **SETTINGS}
    of_hosts["berth_ca_directory"] = str(folder / "ca")
    groups = {
        "kvm_hosts": {"hosts": hosts, "vars": of_hosts},
        "instances": {"hosts": instances, "vars": instance},
    }
    inventory = folder / "inventory.yml"
    tree = {"all": {"vars": copy.deepcopy(good.CATALOG), "children": groups}}
    if change:
        change(tree)
    inventory.write_text(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False))
    return inventory


def play(folder, playbook, extra=None, refuse=None, change=None, more_environment=None, replies=replies, ended=None):
    """What each host was asked with, and what the run printed."""
    inventory = build(folder, extra, refuse, change, replies, ended)
    rc, stdout, stderr = _ran(folder, inventory, playbook, more_environment)
    asked = {host: folder / host / "asked.jsonl" for host in good.HOSTS}
    lines = {host: path.read_text().splitlines() if path.exists() else [] for host, path in asked.items()}
    return {"asked": lines, "rc": rc, "said": stdout + stderr, "stdout": stdout, "ca": (folder / "ca").exists()}


ONE_AT_A_TIME = threading.Lock()  # some tests play side by side


def _ran(folder, inventory, playbook, more_environment):
    """How the run ended, and what it printed. It has Ansible loaded already, unless it has an environment of its own."""
    command, environment = command_of(folder, inventory, playbook, more_environment)
    if more_environment:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr
    with ONE_AT_A_TIME:
        run = _loaded().start(command, {}, apart=True)
        stdout, stderr = run.communicate(120)
    return run.returncode, stdout, stderr


@functools.cache
def _loaded():
    folder = tempfile.TemporaryDirectory()
    loaded = Warm(_environment(Path(folder.name)))
    atexit.register(folder.cleanup)
    atexit.register(loaded.end)
    return loaded


def _environment(folder):
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }  # fmt: skip


def command_of(folder, inventory, playbook, more_environment=None):
    """The command that plays it, and its environment."""
    environment = {**os.environ, **_environment(folder), **(more_environment or {})}
    command = [
        Path(sys.executable).parent / "ansible-playbook",
        "-i",
        inventory,
        folder / playbook[0] if playbook[0].endswith(".yml") else "berth.kvm." + playbook[0],
        *playbook[1:],
    ]
    return list(map(str, command)), environment
