# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command boots all hosts anew, one after the other, while the guests run on.

A host of the lab has no boot of its own kind: the command that boots it leaves a file, for which a thread switches the host
off and on and gives it another boot id.
"""

from __future__ import annotations

import threading

import pytest

from playbooks import catalog, homes, vm

ASKED = "/srv/shared/boot-%s"
NEW_BOOT = """cat /proc/sys/kernel/random/uuid > /run/boot_id; mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
echo 10.00 10.00 > /run/uptime; mount --bind /run/uptime /proc/uptime"""


@pytest.fixture
def booting(lab):
    """What boots the hosts that ask for it -> their names, in that order."""
    done, ended = [], threading.Event()

    def boot():
        while not ended.wait(0.5):
            for host in lab.hosts:
                if host not in done and lab.sh(host, "rm %s" % (ASKED % host), check=False).rc == 0:
                    lab.crash(host)
                    lab.start(host)
                    lab.sh(host, NEW_BOOT)
                    done.append(host)

    thread = threading.Thread(target=boot)
    thread.start()
    yield done
    ended.set()
    thread.join()
    for host in lab.hosts:
        lab.sh(host, "umount /proc/sys/kernel/random/boot_id /proc/uptime; rm -f %s" % (ASKED % host), check=False)


def test_all_hosts_are_booted_one_after_the_other_and_no_guest_is(lab, image, inventory, booting):
    pair = {name: vm(server_group="pair") for name in ("one", "two")}
    path = inventory({**pair, "off": vm(state="stopped")}, catalog(image))
    hosts = {"berth_boot_command": "touch %s" % (ASKED % "{{ inventory_hostname }}")}

    def play(name, *words, check=True, **variables):
        given = {**hosts, **variables}
        return lab.ansible_playbook(
            "berth.kvm." + name, *words, inventory=[path], extra_vars=given, check=check, timeout=1200
        )

    play("create")
    before = homes(lab)
    inside = {name: lab.guest_facts(name, timeout=120)["nonce"] for name in pair}
    assert before["one"] != before["two"]

    dry = play("rolling_reboot", "--check")
    assert "%s is to be booted; leaves before: one" % before["one"] in dry.stdout and booting == []

    done = play("rolling_reboot")
    assert booting == sorted(lab.hosts), done.output[-3000:]
    assert homes(lab) == before
    after = {name: lab.guest_facts(name, timeout=60) for name in pair}
    assert {name: facts["nonce"] for name, facts in after.items()} == inside
    assert {facts["boots"] for facts in after.values()} == {1}
    assert "was booted since then" in play("rolling_reboot", berth_since="2h").stdout

    host = before["one"]  # a run that ended after the boot, before it opened the host
    play("drain", berth_kvm_host=host, berth_drain_reason="rolling reboot")
    lab.sh(host, "umount /proc/sys/kernel/random/boot_id /proc/uptime; " + NEW_BOOT)
    went_on = play("rolling_reboot", berth_since="2h")
    assert "%s was booted, and is to be opened" % host in went_on.stdout
    assert {name: homes(lab)[name] for name in pair} == {name: before[name] for name in pair}
    assert booting == sorted(lab.hosts), "nothing was booted twice"
