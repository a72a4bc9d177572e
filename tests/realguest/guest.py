# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance of the Debian image on the lab: the playbooks that act on it, and a look inside over ssh."""

from __future__ import annotations

import json
import time
from pathlib import Path

from client import CommandFailed, run

from playbooks import homes

BOOT = 1200  # seconds that a boot may take: no KVM here, and the machine may have other work
LOOK = Path(__file__).resolve().parent / "look.py"
# What a busy machine without KVM needs more of than a real one.
PATIENCE = {"berth_host_timeout": 300, "berth_shutdown_timeout": 300}
SSH = "-o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR -o ConnectTimeout=10 -o ServerAliveInterval=15"


class Guest:
    """``address``: where it is reached; ``key``: the private key that its user takes."""

    def __init__(self, lab, directory, name, address, key, instance, variables):
        self.lab, self.name, self.address, self.key = lab, name, address, key
        self.path = Path(directory) / (name + ".yml")
        tree = {"all": {"vars": variables, "children": {"instances": {"hosts": {name: instance}}}}}
        self.path.write_text(json.dumps(tree))

    def play(self, playbook, variables=(), check=True):
        print("\n%s berth.kvm.%s of %s" % (time.strftime("%T"), playbook, self.name), flush=True)
        return self.lab.ansible_playbook(
            "berth.kvm." + playbook,
            "--limit",
            self.name,
            inventory=[self.path],
            extra_vars={**PATIENCE, **dict(variables)},
            check=check,
            timeout=1800,
        )

    @property
    def host(self):
        return homes(self.lab)[self.name]

    # --- inside
    def ssh(self, command, stdin=None, check=True, timeout=300):
        argv = ["ssh", *SSH.split(), "-i", self.key, "-o", "UserKnownHostsFile=/dev/null", "debian@" + self.address]
        return run([*argv, command], check=check, timeout=timeout, stdin=stdin)

    def look(self):
        """What look.py sees, with the time here at which it was asked."""
        here = time.time()
        return {**json.loads(self.ssh("sudo python3 -", stdin=LOOK.read_text()).stdout), "here": here}

    def booted(self, after=None):
        """A look once cloud-init is done, in another boot than that of the look ``after``."""
        deadline = time.monotonic() + BOOT
        while time.monotonic() < deadline:
            asked = self.ssh(
                "cat /proc/sys/kernel/random/boot_id && cloud-init status --wait >/dev/null", check=False, timeout=BOOT
            )
            if asked.rc in (0, 1, 2) and asked.stdout.strip() not in ("", after and after["boot"]):
                print("%s %s is up" % (time.strftime("%T"), self.name), flush=True)
                return self.look()
            time.sleep(5)
        raise CommandFailed(
            "%s was not up within %d s\n%s\n%s" % (self.name, BOOT, asked.output, self.console()[-3000:])
        )

    # --- outside
    def console(self):
        return "".join(
            self.lab.sh(host, "cat /var/log/libvirt/qemu/*-console.log* 2>/dev/null; true").stdout
            for host in self.lab.hosts
        )

    def console_says(self, word):
        """Wait for a word on the serial console -> all that was said until then."""
        deadline = time.monotonic() + BOOT
        while word not in self.console():
            if time.monotonic() > deadline:
                raise CommandFailed("the console of %s did not say %r\n%s" % (self.name, word, self.console()[-3000:]))
            time.sleep(5)
        return self.console()
