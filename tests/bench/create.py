# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long ``create`` takes for 12 instances on 3 hosts of a lab, against a shell script that makes the same guests and against a
playbook that makes them with community.libvirt, and with nothing to do, against ``host_facts``.

The playbook is looped.yml: its collection comes from PyPI's package ``ansible``, and needs python3-lxml on the hosts. The script
runs on all hosts at once over SSH and makes the guests of a host side by side: qemu-img with the same backing file, the same seed,
the same packet filters, virsh define with the same XML, virsh start; and once more without the packet filters, for which libvirt
runs some 50 commands at each start. All take turns. The guests have an empty disk, so that what they do does not matter. Needs
root; writes .bench/create.json: [{name, value, median, unit, load, against, ratio}], where value is the least.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "lab"), str(REPOSITORY / "tests" / "integration")]

import yaml  # noqa: E402
from client import LabClient  # noqa: E402
from whole import make_whole  # noqa: E402

from playbooks import catalog, vm  # noqa: E402

COUNT = 12
PACKAGE = "ansible==12.0.0"  # has community.libvirt 2.0.0
DIRECTORY = "/var/lib/libvirt/berth/instances/%s"
IMAGE = "/srv/shared/images/empty.raw"
# The packet filters of the guest "$uuid" on a host, as one line.
FILTERS = """for name in $(virsh -q dumpxml "$uuid" | sed -n "s/.*<filterref filter='\\([^']*\\)'.*/\\1/p"); do
    virsh -q nwfilter-dumpxml "$name"; done | base64 -w0; echo"""
# Of each guest on a host: its definition, its seed and how its disk was made, as the playbook left them.
READ = (
    """cd /var/lib/libvirt/berth/instances && for uuid in *; do
  echo "$uuid"; virsh -q dumpxml --inactive "$uuid" | base64 -w0; echo; base64 -w0 "$uuid/seed.iso"; echo
  """
    + FILTERS
    + """
  qemu-img info -U --output=json "$uuid/root.qcow2" | tr -d '\\n'; echo
done"""
)
MAKE = """(mkdir -m 711 %(directory)s && cd %(directory)s && echo %(seed)s | base64 -d > seed.iso
qemu-img create -q -f qcow2 -F raw -b %(backing)s -- root.qcow2 %(size)d && echo %(xml)s | base64 -d > /run/%(uuid)s.xml
mkdir -p /run/berth/permits; cat /proc/sys/kernel/random/boot_id > /run/berth/permits/%(uuid)s
echo %(filter)s | base64 -d > /run/%(uuid)s.filter
[ ! -s /run/%(uuid)s.filter ] || virsh -q nwfilter-define /run/%(uuid)s.filter > /dev/null
virsh -q define /run/%(uuid)s.xml > /dev/null && virsh -q start %(uuid)s > /dev/null) & pids="$pids $!"
"""
WAIT = 'for pid in $pids; do wait "$pid" || exit 1; done\n'
REMOVE = """virsh -q destroy %(uuid)s; virsh -q undefine --nvram %(uuid)s
virsh -q nwfilter-list | sed -n 's/.* \\(berth-%(uuid)s-[0-9]*\\).*/\\1/p' | xargs -r -n 1 virsh -q nwfilter-undefine
rm -rf %(directory)s /run/%(uuid)s.xml /run/%(uuid)s.filter /run/berth/permits/%(uuid)s
"""


def seconds(act):
    began = time.monotonic()
    act()
    return time.monotonic() - began


def unfiltered(guest):
    """The guest without its packet filter."""
    plain = re.sub(rb"<filterref [^>]*/>", b"", base64.b64decode(guest["xml"]))
    return {**guest, "xml": base64.b64encode(plain).decode(), "filter": ""}


def guests(lab):
    """Host -> its guests, as the playbook made them."""
    found = {}
    for host in lab.hosts:
        lines = lab.sh(host, READ).stdout.splitlines()
        for uuid, xml, seed, packet_filter, info in zip(*(lines[at::5] for at in range(5))):
            disk = json.loads(info)
            parts = {"uuid": uuid, "xml": xml, "seed": seed, "filter": packet_filter, "directory": DIRECTORY % uuid}
            made = {"backing": disk["backing-filename"], "size": disk["virtual-size"]}
            found.setdefault(host, []).append({**parts, **made})
    assert sum(map(len, found.values())) == COUNT, found.keys()
    return found


def community_libvirt(folder):
    """Put the collection below .cache/bench, once -> the directory of collections."""
    collections = REPOSITORY / ".cache" / "bench"
    if not (collections / "ansible_collections" / "community" / "libvirt").is_dir():
        download = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-d",
            folder,
            PACKAGE,
        ]
        subprocess.run(download, check=True)
        (wheel,) = Path(folder).glob("ansible-*.whl")
        with zipfile.ZipFile(wheel) as package:
            ours = [name for name in package.namelist() if name.startswith("ansible_collections/community/libvirt/")]
            package.extractall(collections, ours)
    return collections


def looped(lab, found, folder):
    """How to run looped.yml for these guests."""
    guests_of = {}
    for host, made in found.items():
        for guest in made:
            seed = Path(folder) / (guest["uuid"] + ".iso")
            seed.write_bytes(base64.b64decode(guest["seed"]))
            xml = base64.b64decode(unfiltered(guest)["xml"]).decode()
            name = re.search("<name>([^<]*)</name>", xml).group(1)
            guests_of.setdefault(host, []).append({**guest, "seed": str(seed), "xml": xml, "name": name})
    variables = Path(folder) / "guests.json"
    variables.write_text(json.dumps({"guests": guests_of}))
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(community_libvirt(folder))}
    playbook = str(Path(__file__).with_name("looped.yml"))
    return lambda: lab.ansible_playbook(playbook, "-e", "@%s" % variables, env=environment)


def by_hand(lab, scripts):
    """Run the script of each host, over SSH and all at once."""
    tree = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["kvm_hosts"]
    options = [*tree["vars"]["ansible_ssh_common_args"].split(), "-i", tree["vars"]["ansible_ssh_private_key_file"]]
    running = []
    for host, script in scripts.items():
        command = ["ssh", *options, "root@" + tree["hosts"][host]["ansible_host"], "sh"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        process.stdin.write(script)
        process.stdin.close()
        running.append(process)
    assert [process.wait(timeout=300) for process in running] == [0] * len(running)


def measure(lab, inventory, rounds, folder):
    """What was measured -> its seconds in each round."""
    seen = {name: [] for name in ("create", "again", "host_facts", "by hand", "by hand, unfiltered", "looped", "load")}
    play = {
        name: lambda name=name, **more: lab.ansible_playbook("berth.kvm." + name, inventory=[inventory], **more)
        for name in ("create", "host_facts")
    }
    play["delete"] = lambda: lab.ansible_playbook(
        "berth.kvm.delete", inventory=[inventory], extra_vars={"berth_delete_all": True}
    )
    play["create"]()  # the image is on each host then
    made = guests(lab)
    play["delete"]()
    play["looped"] = looped(lab, made, folder)
    remove = {host: "".join(REMOVE % guest for guest in found) for host, found in made.items()}
    for _round in range(rounds):
        seen["create"].append(seconds(play["create"]))
        seen["host_facts"].append(seconds(play["host_facts"]))
        seen["again"].append(seconds(play["create"]))
        play["delete"]()
        for name, shape in (("by hand", dict), ("by hand, unfiltered", unfiltered)):
            make = {host: "".join(MAKE % shape(guest) for guest in found) + WAIT for host, found in made.items()}
            seen[name].append(seconds(lambda make=make: by_hand(lab, make)))
            by_hand(lab, remove)
        seen["looped"].append(seconds(play["looped"]))
        by_hand(lab, remove)
        seen["load"].append(os.getloadavg()[0])
        print({name: round(found[-1], 2) for name, found in seen.items()}, flush=True)
    return seen


def row(name, seen, what, against):
    """The best of all rounds is compared: whatever else runs on the machine only adds."""
    return {
        "name": name,
        "value": round(min(seen[what]), 2),
        "median": round(statistics.median(seen[what]), 2),
        "unit": "s",
        "load": round(statistics.median(seen["load"]), 1),
        "against": "%s, %.2f s" % (against, min(seen[against])),
        "ratio": round(min(seen[what]) / min(seen[against]), 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="bench")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lab = LabClient(options.lab)
    lab.up(3)
    lab.extra_inventories = [REPOSITORY / "examples" / "demo" / "catalog.yml"]
    with tempfile.TemporaryDirectory() as folder:
        lab.ansible_playbook("berth.kvm.prepare_hosts")
        make_whole(lab)
        lab.compile_modules_each_run()
        lab.sh(lab.hosts[0], "truncate -s 1M " + IMAGE)
        checksum = "sha256:" + hashlib.sha256(bytes(1 << 20)).hexdigest()
        image = {"url": IMAGE, "checksum": checksum, "disk_format": "raw"}
        names = {"vm%02d" % at: vm() for at in range(COUNT)}
        inventory = Path(folder) / "instances.json"
        inventory.write_text(json.dumps({"all": {"vars": catalog(image), "children": {"instances": {"hosts": names}}}}))
        seen = measure(lab, inventory, options.rounds, folder)
    lab.down()
    rows = [
        row("create of %d on 3 hosts" % COUNT, seen, "create", "by hand"),
        row("create of %d on 3 hosts, with packet filters" % COUNT, seen, "create", "by hand, unfiltered"),
        row("create of %d on 3 hosts, of which the loop's have no packet filters" % COUNT, seen, "create", "looped"),
        row("create of %d that are there" % COUNT, seen, "again", "host_facts"),
    ]
    for entry in rows:
        print("{name}: {value} {unit}, {ratio} x {against}".format(**entry), flush=True)
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "create.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
