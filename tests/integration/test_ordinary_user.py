# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that one logs in to as an ordinary user, who becomes root by sudo for the tasks that need it (C16)."""

from __future__ import annotations

import re
import shutil

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from playbooks import catalog, homes, vm

USER = "olga"
MAKE_USER = """
set -e
command -v sudo >/dev/null || exit 3
id %(user)s >/dev/null 2>&1 || useradd --create-home --shell /bin/bash --password '*' %(user)s
install -d -m 700 -o %(user)s -g %(user)s /home/%(user)s/.ssh
install -m 600 -o %(user)s -g %(user)s /root/.ssh/authorized_keys /home/%(user)s/.ssh/
echo '%(rule)s' | install -m 440 /dev/stdin /etc/sudoers.d/%(user)s
"""
AS_USER = {"ansible_user": USER, "ansible_become": True}
FREE = USER + " ALL=(ALL:ALL) NOPASSWD: ALL"


def let(lab, host, rule):
    lab.sh(host, MAKE_USER % {"user": USER, "rule": rule})


@pytest.fixture
def users(lab):
    """The lab with the user on each of its hosts; gone afterwards."""
    if not shutil.which("sudo"):
        pytest.skip("sudo is not installed (lab/packages-dev.txt), and the hosts see this machine's programs")
    for host in lab.hosts:
        let(lab, host, FREE)
    yield lab
    for host in lab.hosts:
        lab.sh(host, "rm -f /etc/sudoers.d/%s; userdel --remove %s 2>/dev/null; true" % (USER, USER))


def test_an_ordinary_user_with_sudo_prepares_hosts_and_creates_and_resizes(users, image, inventory):
    lab = users
    path = inventory({"web": vm()}, catalog(image))

    def play(name, **variables):
        return lab.ansible_playbook("berth.kvm." + name, inventory=[path], extra_vars={**AS_USER, **variables})

    lab.sh(1, "rm /etc/libvirt/hooks/qemu.d/berth")  # so that there is something to do
    assert play("prepare_hosts").changed[lab.host(1)] == 2
    play("create")
    source = homes(lab)["web"]
    play("resize", berth_name="web", berth_flavor="two")
    assert homes(lab)["web"] != source
    play("confirm_resize", berth_name="web")


@pytest.mark.follows("allow_become")
def test_what_sudo_says_is_quoted_with_the_host_and_what_to_do_about_it_works(users, image, inventory):
    lab = users
    asks, refuses, lacks = lab.hosts
    let(lab, asks, USER + " ALL=(ALL:ALL) ALL")
    let(lab, refuses, USER + " ALL=(ALL:ALL) NOPASSWD: /bin/true")
    path = inventory({"web": vm()}, catalog(image))

    def play(name, check=True):
        return lab.ansible_playbook("berth.kvm." + name, inventory=[path], extra_vars=AS_USER, check=check)

    lab.sh(lacks, "mv /usr/bin/sudo /usr/bin/sudo.away")
    try:
        said = [play(name, check=False) for name in ("create", "prepare_hosts")]
    finally:
        lab.sh(lacks, "mv /usr/bin/sudo.away /usr/bin/sudo")
    for done in said:
        assert (done.rc, homes(lab)) == (2, {})
        for host, words in ((asks, "Missing sudo password"), (refuses, "Missing"), (lacks, "sudo: not found")):
            assert re.search("%s: the login user cannot become root with sudo: .*%s" % (host, words), done.stdout)
            assert fleet_hints.allow_become(host, "sudo") in done.stdout
    for host in (asks, refuses):
        let(lab, host, FREE)
    play("create")
    assert list(homes(lab)) == ["web"]
