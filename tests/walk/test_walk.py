# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README, walked word for word by somebody who has a bare Debian, three hosts with libvirt, and nothing else."""

from __future__ import annotations

import os
import subprocess

from client import run
from page import README, TYPED, script, steps, times

LIMIT = (
    240  # seconds from the first command to the guest's shell, on two idle cores; BERTH_WALK_SECONDS for a busy machine
)
INSIDE = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"'
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def of_the_lab(lab, port, found):
    """What every reader replaces by their own: the hosts' network, and where the image is. The lab's libvirt has no AppArmor."""
    prefix = run(["sed", "-n", "s/.*lab_guest_prefix: \\([0-9.]*\\).*/\\1/p", lab.inventory], check=True).stdout.strip()
    server = "http://controller:%d/" % port
    ours = [
        (
            name,
            text.replace("192.0.2", prefix).replace("https://cloud.debian.org/images/cloud/bookworm/latest/", server),
        )
        for name, text in found
    ]
    return [("group_vars/kvm_hosts.yml", "berth_host_security_driver_none_ok: true\n"), *ours]


def walk(root, text):
    """Run the script in the root as its user would, with nothing of this machine but how pip reaches its index."""
    (root / "root" / "walk").write_text(text)
    pip = {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_CERT") if name in os.environ}
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, root, root]
    inside = ["env", "--chdir=/root/berth.kvm", "bash", "/root/walk"]
    environment = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **pip}
    done = subprocess.run(
        [*command, *inside],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return times(done.stdout)


def test_the_readme_leads_from_a_bare_debian_to_a_shell_in_a_guest(reader, lab, mirror):
    (reader / "root" / "berth.kvm" / "group_vars").mkdir()
    took = walk(reader, script(of_the_lab(lab, mirror, steps(README.read_text("utf-8")))))
    total = 0
    for command, seconds, said in took:
        total += seconds
        print("| `%s` | %.0f | %.0f |" % (command.partition("  #")[0].rstrip(), seconds, total))
        if command.startswith("ssh "):
            assert (said.split()[-1:], TYPED) == (["web1"], "hostname")
            assert total <= float(os.environ.get("BERTH_WALK_SECONDS") or LIMIT)
            break
    else:
        raise AssertionError("the page does not log in")
