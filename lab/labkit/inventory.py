# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab tells Ansible and its own hosts: inventory, host keys, names."""

from __future__ import annotations


def _write_in_place(path, text):
    """Keep the inode: hosts that are up have the file mounted."""
    with open(path, "a+", encoding="utf-8") as handle:
        handle.truncate(0)
        handle.write(text)


def write_index(lab, hosts):
    """inventory.yml, known_hosts and /etc/hosts for all hosts of the lab."""
    names = ["127.0.0.1 localhost", "%s.1 controller" % lab.management] + [
        "%s %s" % (host.address, host.name) for host in hosts
    ]
    _write_in_place(lab.etc_hosts, "\n".join(names) + "\n")
    _write_in_place(
        lab.known_hosts, "".join("%s,%s %s\n" % (host.name, host.address, host.public_key) for host in hosts)
    )
    _write_in_place(lab.inventory, _inventory(lab, hosts))


def _inventory(lab, hosts):
    ssh = [
        "-o UserKnownHostsFile=%s" % lab.known_hosts,
        "-o StrictHostKeyChecking=yes",
        "-o IdentitiesOnly=yes",
        "-o ServerAliveInterval=5",
        "-o ServerAliveCountMax=3",
    ]
    lines = ["# Written by lab/lab: the hosts of lab '%s'." % lab.name, "all:", "  vars:"]
    lines += [
        "    lab_guest_cidr: %s.0/24" % lab.guests,
        "    lab_guest_gateway: %s.1" % lab.guests,
        "    lab_guest_prefix: %s  # .100-.199 by DHCP, .200-.250 for addresses of your own" % lab.guests,
    ]
    checksum = lab.image.with_suffix(".qcow2.sha256")
    if checksum.exists():
        lines += [
            "    lab_image: /srv/shared/images/guest.qcow2",
            "    lab_image_checksum: sha256:%s" % checksum.read_text().strip(),
        ]
    lines += ["  children:", "    kvm_hosts:", "      vars:"]
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": '"%s"' % lab.key,
        "ansible_ssh_common_args": "%s" % " ".join(ssh),
        "ansible_control_path_dir": lab.control_sockets,
        "ansible_pipelining": "true",
        "ansible_python_interpreter": "/usr/bin/python3",
        "berth_ca_directory": lab.state / "ca",
    }
    lines += ["        %s: %s" % item for item in variables.items()]
    lines += ["      hosts:"] if hosts else ["      hosts: {}"]
    for host in hosts:
        lines += ["        %s:" % host.name, "          ansible_host: %s" % host.address]
    return "\n".join(lines) + "\n"
