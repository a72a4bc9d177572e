# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/catalog.md, from the catalog's checks and from what is said here of each variable."""

from __future__ import annotations

import json

from table_cell import escaped

from ansible_collections.berth.kvm.plugins.module_utils.model import catalog_schema as schema
from ansible_collections.berth.kvm.plugins.module_utils.model import data_disks, security_groups
from ansible_collections.berth.kvm.plugins.module_utils.model import schema as checks

# The catalog's variables: what each is for, and what checks one thing of it.
CATALOG = {
    "berth_flavors": ("Sizes of instances, by name. `projects`: only these may use it.", schema.FLAVOR),
    "berth_images": (
        "Images, by name, each with either `url` or `upload`. `properties` have Nova's names. If an image has `projects`, only these may "
        "use it. An uploaded file is sent to a host once, when the first instance there needs it, through Ansible's directory for "
        "temporary files on the host (`remote_tmp`), which needs room for it. Moves need it on no other host.\n\n"
        "`checksum` is that of the file as its publisher offers it. If that file is compressed with xz, gzip or bzip2, or with zstd and "
        "the host has Python 3.14, it is unpacked while it is downloaded, up to the size of the flavor's root disk; `disk_format` is "
        "that of the disk in it. Archives (zip, tar, OVA, 7z) are refused (`ImageInvalid`), with the command that "
        "unpacks them. No disk is made from an ISO, but "
        "[a rescue boots it](rescue.md#install-a-system-from-an-iso). "
        "If `checksum` is the address of a list such as `https://.../SHA512SUMS`, each host reads there the SHA-256 or "
        "SHA-512 of the file at `url` when it downloads it. It keeps what it has: for a newer image under the same name, "
        "[remove unused images](storage.md) or give the checksum itself. A list proves no more than its server does. Downloads go "
        "through the host's `berth_host_image_proxy`, with the agent `berth.kvm/VERSION`. Zeros of a raw image take no room in the cache."
        "\n\n"
        "A vmdk of VMware or a vhdx of Hyper-V is one file with the whole disk, such as the vmdk in an OVA (`tar -xf`). A host keeps it "
        "as qcow2, and needs room for both files while it converts it. Its guest looks for the devices that it knew: without "
        "drivers for virtio, give the image `hw_disk_bus: sata` and `hw_vif_model: e1000e`, and `hw_firmware_type: uefi` if it booted "
        "by UEFI.",
        schema.Image.fields,
    ),
    "berth_networks_defined": ("Networks that NICs can be on, by name.", schema.Network.fields),
    "berth_security_groups_defined": (
        "Rules for the traffic to and from a guest, by name. [What they mean](networks.md#security-groups).",
        schema.SECURITY_GROUP,
    ),
    "berth_server_groups": (
        "Groups of instances to keep together or apart, by name.",
        schema.ServerGroup.fields,
    ),
    "berth_keypairs_defined": ("Public keys, by name. The value may be just the key.", schema.KeyPair.fields),
    "berth_volumes_defined": (
        "Disks that outlive their instance, by name; `image` is what a new one is made from. [What they are](volumes.md).",
        schema.VOLUME,
    ),
    "berth_aggregates": (
        "Sets of hosts, by name. `groups` are inventory groups whose hosts belong to it. `availability_zone` is the zone of these "
        "hosts. An instance's record keeps the zone of its host (`nova` if the host is in none); a move or a revert updates it. "
        "`show`, the facts of the hosts and the inventory plugin show it. If this variable names another zone by now, the inventory "
        "plugin and the report use the variable.",
        schema.AGGREGATE,
    ),
    "berth_pci_aliases": (
        "PCI devices that a flavor may request, by name. Several entries of one name are alternatives. "
        "[vGPUs](guest-features.md#vgpus) need no name here. Tests check facts, claims and definitions with recorded and simulated "
        "devices; passing a device through to a guest was not tried on hardware.",
        schema.PCI_ALIAS,
    ),
    "berth_quotas": ("Limits by project. `*` is every other project; -1 is no limit.", schema.QUOTA),
}
INSTANCE_NOTES = {
    "berth_flavor": "the name of a flavor; required. An inventory host with this variable is an instance",
    "berth_image": "the name of an image; required, except of an instance that was adopted",
    "berth_adopted": "the uuid of the guest that it was, of an instance that was [adopted](adopt.md)",
    "berth_uuid": "the uuid that it kept, of an instance that was [renamed](rename.md)",
    "berth_networks": "NICs: names of networks, or {network, address, mac, security_groups, ...}, see [networks](networks.md)",
    "berth_network_config": "cloud-init's network-config as a mapping, instead of what berth makes of berth_networks, see "
    "[networks](networks.md#what-the-guest-is-told)",
    "berth_security_groups": "the security groups of all its NICs, except those with their own list",
    "berth_server_group": "the name of a server group",
    "berth_project": "the project that it belongs to (`default`)",
    "berth_availability_zone": "a zone, zone:host or zone:host:node",
    "berth_pool": "the storage pool (`berth`); hosts without it are left out, and the disks count against its space",
    "berth_disks": "data disks: {name: {size_gb, bus}}, or a list of {name, size_gb, bus}; see [below](#data-disks)",
    "berth_volumes": "volumes: names, or {name: {delete_on_termination, boot_index}}, see [volumes](volumes.md)",
    "berth_ssh_keys": "public keys for the guest's first user",
    "berth_hints": "scheduler hints; same_host and different_host take names of instances or uuids",
    "berth_target_host": "only this host, if every filter lets it pass",
    "berth_ignore_hosts": "never these hosts",
    "berth_force_hosts": "one of these hosts, bypassing the filters, with a warning; capacity is still claimed",
    "berth_key_names": "names of key pairs for the guest's first user, beside berth_ssh_keys",
    "berth_metadata": "names and texts that are kept with the instance and passed to the guest, see [the guest](guest-features.md)",
    "berth_files": "files that cloud-init writes: {path, content, encoding (text or base64), mode ('0644'), owner (root:root)}",
    "berth_admin_password_hash": "the sha512 or yescrypt hash of the password of the guest's first user",
    "berth_admin_password": "refused: give only the hash of a password",
    "berth_disk_config": "auto: the root file system grows to its disk; manual: it does not; not set: the image decides",
    "berth_access_ip_v4": "an address at which the guest is reached, for example one that a router translates",
    "berth_access_ip_v6": "the same for IPv6",
    "berth_state": "the power state that [create](create-and-delete.md#power-and-locks) sets, `active` or `stopped`; default: as it is",
    "berth_user_data": "[user data](guest-features.md#user-data) for cloud-init, Ignition, Talos or cloudbase-init: text, base64 or "
    "base64 of gzip; at most 65535 bytes in base64",
}
DATA_DISKS = """### Data disks

    berth_disks:
      logs: {size_gb: 10}
      db: {size_gb: 200, bus: scsi}

They are created empty with the instance, in its pool, and deleted with it. A name has at most %d characters of a-z, 0-9
and `-`; `size_gb` is from 1 to %d; `bus` is %s, by default the image's `hw_disk_bus`.
An instance has at most %d. Their
sizes count like the flavor's disks, in addition to a flavor's `resources:DISK_GB`: in placement, in the claim, against
the pool.

In the guest the serial number of a disk is its name: `/dev/disk/by-id/virtio-logs`,
`/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_db`. Use that path, also in cloud-init's `fs_setup` and `mounts`: `/dev/vdb`
is another disk after a resize to a flavor with swap.

| you want | do |
| --- | --- |
| more or larger data disks | change `berth_disks`, then run `berth.kvm.update_disks --limit web1`, while the guest runs or is off |
| a smaller disk | not possible (`CannotResizeDisk`) |
| fewer disks | nothing removes a disk: one that `berth_disks` no longer names stays as it is, with its data |

- `update_disks` claims the room first. `--check` says whether it would change anything.
- `create` does not change the disks of an existing instance. Its table says if the inventory names others
  (`has no data disk logs. Run berth.kvm.update_disks --limit web1`).
- A resize and every migration take the disks along as they are. While a resize waits for its confirmation no disk
  changes (`InstanceInvalidState`).
- A running guest accepts no SATA disk, no SCSI disk if it has no SCSI controller, and only as many disks as it has free
  slots (`DiskNotAttached`): add them while it is off.
- The guest must grow the file system on a disk itself.
- If the file of a disk is missing, or a snapshot's layer lies over it, every start and every move is refused
  (`DiskChainChanged`): a disk that a guest had is never created again.
""" % (
    data_disks.LONGEST_NAME,
    data_disks.MOST_GB,
    ", ".join("`%s`" % bus for bus in data_disks.BUSES),
    data_disks.MOST,
)


def catalog_page():
    lines = [
        "<!-- Written by docs/generate.py from plugins/module_utils/model/catalog_schema.py. -->",
        "# The catalog: what instances are made of",
        "",
        "Put these variables into `group_vars/all`. Each instance uses its own flavors, images, networks and PCI aliases, so",
        "groups of instances can have different ones. What instances share must be the same for all instances of the",
        "inventory, selected or not: `berth_quotas`, `berth_placement`, `berth_server_groups`, `berth_aggregates`, and the run's",
        "`berth_lost_hosts`, `berth_strict_uniqueness` and `berth_without_majority`. If two instances differ in one of these,",
        "the run is refused and names them.",
        "All variables are checked before anything is done. An error names the field, such as `berth_flavors.m1.vcpus`, its",
        "value and the rule, and suggests the right name for an unknown one. Instead of a mapping by name you may give a list of",
        "mappings with a field `name`. Sizes are MiB for `memory_mb`, `min_ram` and `swap`, GiB for disks.",
        "",
        "Numbers and truth values of the catalog and of instances are no text: write them without quotes, and pass them with `-e`",
        "as JSON. Settings of hosts (`berth_host_*`) and options of a run may be text, as `-e NAME=VALUE` and surveys of AWX give it.",
        "",
    ]
    for name, (said, check) in CATALOG.items():
        lines += ["## %s" % name, "", said, "", "| field | value | default |", "| --- | --- | --- |"]
        for field, one in check.fields.items():
            default = json.dumps(check.defaults[field]) if field in check.defaults else "required"
            lines.append("| `%s` | %s | %s |" % (field, escaped(described_check(one)), default))
        lines.append("")
    lines += ["## berth_placement", "", "[The options of placement](placement/options.md).", "", "## An instance", ""]
    lines += ["Variables of its inventory host; the host's name is the name of the instance. Settings of KVM hosts"]
    lines += ["(`berth_host_...`, `kvm_host_...`) do nothing there, and every run warns of them.", ""]
    lines += ["| variable | meaning |", "| --- | --- |"]
    if set(schema.INSTANCE) | {"berth_user_data"} != set(INSTANCE_NOTES):
        raise SystemExit("docs/catalog_page.py: INSTANCE_NOTES and the checks do not name the same variables")
    lines += ["| `%s` | %s |" % (name, escaped(said)) for name, said in INSTANCE_NOTES.items()]
    return "\n".join([*lines, "", DATA_DISKS])


def described_check(check):
    """A check in words."""
    if isinstance(check, checks.ListOf):
        return "list of: " + described_check(check.item)
    if isinstance(check, checks.MapOf):
        return "mapping to " + described_check(check.value)
    if isinstance(check, checks.Fields):
        return "{%s}" % ", ".join("%s: %s" % (name, described_check(one)) for name, one in check.fields.items())
    if isinstance(check, checks.Flag):
        return "true or false"
    if isinstance(check, checks.Word):
        return "text, number or truth value"
    if isinstance(check, security_groups.Rule):
        return described_check(security_groups.RULE)
    return getattr(getattr(check, "line", check), "rule", None) or "image properties by name"
