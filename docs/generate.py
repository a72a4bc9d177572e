#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/placement/ from the docstrings of filters and weighers, and docs/catalog.md from the catalog's checks.

docs/generate.py            writes the pages and takes away those of filters that are gone
docs/generate.py --check    changes nothing; exit status 1 where a page is not what would be written
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / ".cache" / "collections")]

import placement_examples  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model import catalog_schema as schema  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import data_disks, guest_features, lifecycle  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import schema as checks  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement import options, registry  # noqa: E402

PAGES = ROOT / "docs" / "placement"
NOTE = "<!-- Written by docs/generate.py from the docstring in %s: change it there. -->\n"
LABELS = ("Options", "Aggregate metadata", "Group rule", "Host", "Source")
# What the options mean that belong to no filter and no weigher.
GENERAL = {
    "driver": "filter: all of this; caching: the same on kept facts; chance: any host that is up; fake: the first",
    "periodic_task_interval": "of driver caching: a host is left out whose kept facts this controller did not read within so many "
    "seconds; -1: no limit (Nova read its hosts anew so often)",
    "enabled_filters": "the filters, in the order they are asked; class names, or ns.coll.name of any collection",
    "available_filters": "kept for who brings a nova.conf; every filter is available",
    "weight_classes": "the weighers; all_weighers stands for those of Nova",
    "host_subset_size": "choose at random, by the seed, among the best N hosts",
    "shuffle_best_same_weighed_hosts": "shuffle, by the seed, the hosts that weigh the same as the best",
    "max_attempts": "how many hosts an instance is tried on: the chosen one and its alternates",
    "max_placement_results": "look at so many candidates only; none: at all of them (Nova: 1000)",
    "limit_tenants_to_placement_aggregate": "a project with an aggregate (filter_tenant_id) only gets hosts in it",
    "placement_aggregate_required_for_tenants": "a project without such an aggregate gets no host",
    "enable_isolated_aggregate_filtering": "aggregates with trait:NAME=required take only what asks for that trait",
    "query_placement_for_image_type_support": "the host must have the trait of the image's disk format",
    "image_metadata_prefilter": "the host must have the traits that image properties (buses, models) imply",
    "packing_host_numa_cells_allocation_strategy": "fill one NUMA cell before the next instead of spreading",
    "disable_fallback_pcpu_query": "ask only for PCPU, never for VCPU, where pinned CPUs are asked for",
    "pci_alias": "PCI aliases in Nova's form; berth_pci_aliases is the usual place",
    "plugin_options": "free options for filters and weighers of other collections, see how-to-write-a-filter.md",
}

# The catalog's variables: what each is for, and what checks one thing of it.
CATALOG = {
    "berth_flavors": ("Sizes of instances, by name. `projects`: only these may use it.", schema.FLAVOR),
    "berth_images": (
        "Images, by name, each with either `url` or `upload`. `properties` have Nova's names. If an image has `projects`, only these may "
        "use it. An uploaded file is sent to a host once, when the first instance there needs it, through Ansible's directory for "
        "temporary files on the host (`remote_tmp`), which needs room for it. Moves need it on no other host.",
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
    "berth_flavor": "the name of a flavor; required, and what makes an inventory host an instance",
    "berth_image": "the name of an image; required",
    "berth_networks": "NICs: names of networks, or {network, address, mac, security_groups, ...}, see [networks](networks.md)",
    "berth_security_groups": "the security groups of those of its NICs that name none themselves",
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
    "berth_user_data": "cloud-init's user data: text that begins with a header of cloud-init, or base64; at most 65535 bytes in base64",
}
DATA_DISKS = """### Data disks

    berth_disks:
      logs: {size_gb: 10}
      db: {size_gb: 200, bus: scsi}

They are created empty with the instance, in its pool, and deleted with it. A name has at most %d characters of a-z, 0-9 and `-`;
`size_gb` is from 1 to %d; `bus` is %s, by default the image's `hw_disk_bus`. An instance has at most %d.
Their sizes count like the flavor's disks, in addition to a flavor's `resources:DISK_GB`: in placement, in the claim, against the pool.

In the guest the serial number of a disk is its name: `/dev/disk/by-id/virtio-logs`, `/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_db`.
Use that path, also in cloud-init's `fs_setup` and `mounts`: `/dev/vdb` is another disk after a resize to a flavor with swap.

| you want | do |
| --- | --- |
| more or larger data disks | change `berth_disks`, then run `berth.kvm.update_disks --limit web1`, while the guest runs or is off |
| a smaller disk | not possible (`CannotResizeDisk`) |
| fewer disks | nothing removes a disk: one that `berth_disks` no longer names stays as it is, with its data |

- `update_disks` claims the room first. `--check` says whether it would change anything.
- `create` does not change the disks of an existing instance. Its table says if the inventory names others
  (`has no data disk logs. Run berth.kvm.update_disks --limit web1`).
- A resize and every migration take the disks along as they are. While a resize waits for its confirmation no disk changes
  (`InstanceInvalidState`).
- A running guest accepts no SATA disk, no SCSI disk if it has no SCSI controller, and only as many disks as it has free slots
  (`DiskNotAttached`): add them while it is off.
- The guest must grow the file system on a disk itself.
- If the file of a disk is missing, or a snapshot's layer lies over it, every start and every move is refused (`DiskChainChanged`):
  a disk that a guest had is never created again.
""" % (
    data_disks.LONGEST_NAME,
    data_disks.MOST_GB,
    ", ".join("`%s`" % bus for bus in data_disks.BUSES),
    data_disks.MOST,
)

# What an instance's variables bring into its guest beside the user data.
GUEST_DATA = """
## What a guest gets beside its user data

The seed is a NoCloud disk. `berth_metadata` is in its `meta-data`: in a guest with cloud-init
`cloud-init query ds.meta_data` shows it as `berth-metadata`, and templates in the user data have it as
`{{ ds.meta_data.berth_metadata.NAME }}`. Values are texts: `yes` is `"true"` as YAML reads it, `"yes"` in quotes stays.

| variable | in the vendor-data | when |
| --- | --- | --- |
| `berth_files` | `write_files`; files of other users than root are written last, when there are users | at the first boot |
| `berth_admin_password_hash` | `user.hashed_passwd`, for the first user; whether sshd takes passwords is the image's | at the first boot |
| `berth_disk_config` | `growpart` and `resize_rootfs`; an image forbids `auto` by `hw_auto_disk_config: disabled` | at each boot |

Vendor-data is separate from the user data, which is passed on unchanged, byte by byte. cloud-init drops a key of the
vendor-data that the user data has too, so a request with both (such as `berth_files` and `write_files`) is refused if the
user data can be read; behind an `#include` it cannot. If an image's cloud-init ignores vendor-data, it ignores all of this.
Files and hash are only in the seed: not in the record, a receipt, a log or a message. They are read when the instance is
created, and so are `berth_ssh_keys` and the key pairs in `berth_key_names`: an existing guest keeps what it has, even if a key
pair is no longer defined. At most 64 files, 1 MiB together.

`berth_access_ip_v4` and `berth_access_ip_v6` are Nova's access_ip: the address at which the guest is reached, for example one that a
router translates. The guest does not learn them. The record keeps them as they were when the instance was created, `show` prints
them, and the inventory plugin sets `ansible_host` from them.

## A kernel of its own

An image with `kernel` (and `initrd`), each a `url` and a `checksum`, or with the properties `kernel_id` and `ramdisk_id`, which name other
images of `disk_format` raw, boots that kernel and not from its disk; `os_command_line` is its command line. Both files are cached and
checked as images are, and are kept beside the disks of the instance, so a move takes them along and needs no web server. Such an
image has no UEFI firmware. A resize keeps the kernel.

## TPM and locked memory

`hw:tpm_version: "2.0"` gives the guest a TPM that swtpm emulates; hosts without swtpm (Debian: `swtpm`, `swtpm-tools`) are left out.
libvirt keeps its state on that host, in `/var/lib/libvirt/swtpm`, unencrypted, and removes it with the instance. The state is not among
the disks, so an instance with a TPM cannot be resized or migrated (`OperationNotSupportedForVTPM`). The lab makes such a guest, stops and
starts it with the same TPM, and deletes it; it has no AppArmor. What a guest keeps in its TPM was not tried.

`hw:locked_memory` needs `hw:mem_page_size`, as in Nova. Tests check it in the definition that libvirt reads back; it was not tried on
hardware.

## Real-time CPUs

`hw:cpu_realtime: "yes"` beside `hw:cpu_policy: dedicated` (or `mixed`) gives the vCPUs of `hw:cpu_realtime_mask` (the
image's mask overrides the flavor's; `^0` is all but the first) the scheduler `fifo` with priority 1. The memory is
locked and not shared, there is no PMU, and the emulator's threads run on the CPUs of the other vCPUs. If all vCPUs
are real-time, `hw:emulator_threads_policy: isolate` gives these threads a CPU of their own. Such a guest needs a host with
CPUs for pinning. As with Nova, berth does not check that the host's kernel is a real-time one: set a trait such as
`CUSTOM_REALTIME` in the host's settings, and `trait:CUSTOM_REALTIME=required` in the flavor.

## A virtual IOMMU

`hw:viommu_model` or the image's `hw_viommu_model` is `intel` (x86, machine type q35), `smmuv3` (ARM, machine type
virt) or `virtio` (both); `auto` is `virtio`. Hosts report what they have with the traits `COMPUTE_VIOMMU_MODEL_*`:
`virtio` and `auto` with libvirt 8.3 and QEMU 7.0. Other hosts are left out, and the verdict says so. Flavor and image must agree.

## Encrypted memory

`hw:mem_encryption: "true"`, or `hw_mem_encryption` of the image, is AMD SEV (`hw:mem_encryption_model` `amd-sev`;
SEV-ES, SEV-SNP and TDX are refused). It needs UEFI firmware without secure boot and machine type q35. A host reports with
the trait `HW_CPU_X86_AMD_SEV` that libvirt can do it there, and with `encrypted_guests` in its facts how many such
guests it may have; each claims one `MEM_ENCRYPTION_CONTEXT`. The memory is locked, the policy is Nova's (`0x0033`),
each virtio device goes through the guest's own translation. Such a guest cannot be migrated while it runs
(`OperationNotSupportedForSEV`); resize and cold migration work. Tests check real-time CPUs, virtual IOMMU and encrypted
memory with the rendered definition and with recorded capabilities of hosts. None was tried on hardware.

## vGPUs

`resources:VGPU: "1"` in a flavor's extra specs is a vGPU: a mediated device of a GPU on the host, with VFIO's interface for
PCI. A host offers the types that its variable names, one type for each GPU (Nova: `[devices] enabled_mdev_types`):

    berth_host_enabled_mdev_types:
      - {type: nvidia-35, parents: ["0000:84:00.0"]}    # this GPU
      - {type: nvidia-36}                               # and every other one that has the type

`berth.kvm.prepare_hosts` writes it to the host; `ls /sys/class/mdev_bus/*/mdev_supported_types` there shows GPUs and types. Its facts
list the GPUs as `vgpus`, with how many vGPUs each has in total and how many are claimed or were made by others. A GPU is a resource
provider of its own, as in Nova: all vGPUs of an instance, at most 16, are of one GPU. Its type is a trait of the GPU and not of the host:
`trait:CUSTOM_NVIDIA_36: required` beside `resources:VGPU` asks for that type, `forbidden` for another. One numbered group may
ask for them too (`resources1:VGPU`, `trait1:...`).

The claim fixes the GPU, the type and a uuid, which follows from that of the instance. The mediated device is made before each start,
also after the host's reboot, and removed when the instance is stopped, moved away or deleted, or when its build fails; the claim holds
the place until then. If the GPU is gone, its host no longer enables the type, others took the place, or somebody else made a device under
the uuid, the error is `VgpuUnavailable`, before the guest is touched. Devices of others are counted and left alone.
The [doctor](doctor.md) finds one that was left behind by an instance without a record, as after records were put back from a backup.

Resize and cold migration claim a vGPU on the destination; the source's is free when the move is confirmed. A guest with a vGPU cannot be
resized on its own host, nor migrated while it runs. If a GPU's driver has no mediated devices, as
NVIDIA's on kernels since 6.8, use [PCI devices](catalog.md#berth_pci_aliases). Tests check the definition, which libvirt's schema
accepts, and use files as the kernel has them below `/sys`. Not tried on hardware.
""".strip().splitlines()


def main(argv):
    pages = every_page()
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    gone = [path for path in PAGES.rglob("*.md") if path not in pages]
    for path in stale + gone:
        print("%s %s" % ("gone:" if path in gone else "stale:", path.relative_to(ROOT)))
    if "--check" in argv:
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    return 0


def every_page():
    """{path: text} of all pages."""
    filters, weighers = registry.builtin("filters"), registry.builtin("weighers")
    pages = {PAGES / "filters" / (name + ".md"): filter_page(one) for name, one in filters.items()}
    pages.update({PAGES / "weighers" / (name + ".md"): weigher_page(one) for name, one in weighers.items()})
    pages[PAGES / "README.md"] = index(filters, weighers)
    pages[PAGES / "options.md"] = options_page(filters, weighers)
    pages[ROOT / "docs" / "catalog.md"] = catalog_page()
    pages[ROOT / "docs" / "lifecycle.md"] = lifecycle_page()
    pages[ROOT / "docs" / "guest-features.md"] = features_page()
    return pages


def lifecycle_page():
    """The states of a record as a table and as a diagram, from model/lifecycle.py."""
    lines = [
        "<!-- Written by docs/generate.py from plugins/module_utils/model/lifecycle.py. -->",
        "# The life of an instance's record",
        "",
        "Each host keeps a record for each instance that it holds, claims, receives or has given up. Its state is its role and",
        "its phase. The record store refuses every change that is not in this diagram. Only the role OWN may run the guest.",
        "A record may be written again in the same state. An arrow to the end means that the record is removed. In a move",
        "every state has one: the move may have ended without this host, which was declared lost.",
        "",
        "```mermaid",
        "stateDiagram-v2",
    ]
    lines += ["    [*] --> %s_%s" % state for state in sorted(lifecycle.FIRST)]
    for state, stage in lifecycle.STAGES.items():
        for after in sorted(one for one in stage.after if one and one != state):
            lines.append("    %s_%s --> %s_%s" % (*state, *after))
        if None in stage.after:
            lines.append("    %s_%s --> [*]" % state)
    lines += [
        "```",
        "",
        "Nova's names are vm_state, task_state and the status of the migration; `-` is none, `as before` the one before the move.",
        "",
        "| role | phase | what it means | resize, cold migration | live migration |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (role, phase), stage in lifecycle.STAGES.items():
        names = [", ".join(_named(one)) if one else "" for one in (stage.cold, stage.live)]
        lines.append("| %s | `%s` | %s | %s | %s |" % (role, phase, stage.means, *names))
    return "\n".join(lines) + "\n"


def _named(names):
    vm_state, task_state, status = names
    return (vm_state or "as before", task_state or "-", status)


def features_page():
    lines = [
        "<!-- Written by docs/generate.py from plugins/module_utils/model/guest_features.py. -->",
        "# What guests are built with",
        "",
        "This page lists each image property and each extra spec that Nova knows: built, refused, or used for placement only.",
        "A create, or a resize to a new flavor, refuses what is marked `refused` before it claims anything. Extra specs that are",
        "not listed are refused in the scopes %s;"
        % ", ".join("`%s:`" % one for one in sorted(guest_features.OUR_SCOPES)),
        "in other scopes they are yours to use, and so are image properties that do not begin with `hw_`, `img_` or `os_`.",
        "The flavor's `hw:x` overrides the image's `hw_x`. A resize keeps firmware type and secure boot.",
        "",
    ]
    for title, table in (("Image properties", guest_features.IMAGE), ("Extra specs", guest_features.FLAVOR)):
        lines += ["## " + title, "", "| name | fate |", "| --- | --- |"]
        lines += ["| `%s` | %s |" % (name, escaped(fate_of(fate))) for name, fate in sorted(table.items())]
        lines.append("")
    lines += [
        "A guest with cloud-init mounts its ephemeral disk at `/mnt` and uses its swap disk, because the seed's vendor-data says so, by",
        "the labels `ephemeral0` and `swap`. Vendor-data is separate from the user data; `mounts` in the user data replaces it. A seed",
        "is made once, so set up disks that a resize adds in the guest. If a resize makes the ephemeral disk larger, systemd grows its",
        "file system when the guest boots.",
        "",
        *GUEST_DATA,
    ]
    return "\n".join(lines) + "\n"


def fate_of(fate):
    if isinstance(fate, guest_features.Refused):
        return "refused" + (" but for %s" % ", ".join(sorted(fate.harmless)) if fate.harmless else "")
    if isinstance(fate, guest_features.ForPlacement):
        return "for placement and people only"
    return "built" + (": %s" % fate.rule.removeprefix("built are ") if fate.words or fate.pattern else "")


def catalog_page():
    lines = [
        "<!-- Written by docs/generate.py from plugins/module_utils/model/catalog_schema.py. -->",
        "# The catalog: what instances are made of",
        "",
        "Put these variables into `group_vars/all`. Each instance uses its own flavors, images, networks and PCI aliases, so",
        "groups of instances can have different ones. What instances share must be the same for all instances of the",
        "inventory, selected or not: `berth_quotas`, `berth_placement`, `berth_server_groups`, `berth_aggregates`, and the run's",
        "`berth_lost_hosts` and `berth_strict_uniqueness`. If two instances differ in one of these, the run is refused and names them.",
        "All are checked before anything is done; an error names the",
        "field, as in `berth_flavors.m1.vcpus`, its value, the rule, and for unknown names what was probably meant.",
        "Things by name may also be a list of things that carry their `name`. Sizes are MiB for `memory_mb`, `min_ram`",
        "and `swap`, GiB for disks.",
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
        raise SystemExit("docs/generate.py: INSTANCE_NOTES and the checks do not name the same variables")
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
    return getattr(check, "rule", None) or "image properties by name"


def parsed(one):
    """(description paragraphs, {label: text}) of a docstring."""
    text = inspect.cleandoc(one.__doc__ or "")
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    labels, described = {}, []
    split = re.compile(r"(?:^|(?<=[.)\]] ))(%s): " % "|".join(LABELS))
    for paragraph in paragraphs:
        parts = split.split(paragraph)
        if parts[0].strip():
            described.append(without_runs(parts[0].strip()))
        labels.update({name: without_runs(said.strip()).rstrip(".") for name, said in zip(parts[1::2], parts[2::2])})
    return [one for one in described if one], labels


def without_runs(text):
    """When a filter runs is told from its attribute, not from its docstring."""
    return re.sub(r"\s*\bRuns (for every instance|once per request|once)[^.]*\.", "", text)


def summary(one):
    """The first sentence."""
    first = parsed(one)[0][0]
    return re.split(r"(?<=[a-z)\]0-9])[.;] ", first, maxsplit=1)[0].rstrip(".")


def rows(pairs):
    lines = ["| | |", "| --- | --- |"]
    lines += ["| %s | %s |" % (name, escaped(text)) for name, text in pairs if text]
    return "\n".join(lines) + "\n"


def escaped(text):
    return text.replace("``", "`").replace("|", "\\|").replace("<", "&lt;")


def source_of(one):
    return NOTE % Path(inspect.getsourcefile(one)).resolve().relative_to(ROOT)


def page(one, kind, facts):
    described, labels = parsed(one)
    facts = [(name.lower(), labels.get(name)) for name in LABELS[:-1]] + facts + [("source", labels.get("Source"))]
    return "%s# %s\n\n%s\n\n%s\n%s" % (
        source_of(one),
        one.__name__,
        "\n\n".join(escaped(part) for part in described),
        rows(facts),
        placement_examples.section(one.__name__, kind),
    )


def filter_page(one):
    return page(
        one,
        "filters",
        [
            ("runs", "once per request" if one.run_filter_once_per_request else "for every instance of a request"),
            ("on a rebuild in place", "runs too" if one.run_on_rebuild else ""),
            ("enabled by default", "yes" if one.__name__ in options.DEFAULT_FILTERS else "no"),
        ],
    )


def weigher_page(one):
    low, high = one.minval, one.maxval
    scale = "from %s to %s of the hosts that passed" % (
        "the smallest" if low is None else "%g" % low,
        "the largest" if high is None else "%g" % high,
    )
    return page(
        one,
        "weighers",
        [
            ("multiplier", multiplier(one)),
            ("normalised", scale),
            ("part of all_weighers", "yes" if one.default else "no, name it in weight_classes"),
        ],
    )


def multiplier(one):
    name = one.multiplier_option
    if not name:
        return "1.0"
    default = options.OPTIONS[name][0] if name in options.OPTIONS else one.options.get(name)
    if default is None:
        return "metrics.weight_multiplier (%s)" % options.METRICS["weight_multiplier"][0]
    return "%s (%s)%s" % (name, default, ", with its sign turned" if one.sign < 0 else "")


def index(filters, weighers):
    lines = [
        "<!-- Written by docs/generate.py. -->",
        "# Filters and weighers",
        "",
        "`berth_placement` enables and sets them; [the options](options.md) have Nova's names and defaults.",
        "Where the parts of Nova are here: [Nova's names](../nova-names.md). How to add one:",
        "[how to write a filter](../how-to-write-a-filter.md). Dense packing: [packing](../packing.md).",
        "A host on which builds failed gets instances last; when it is repaired, run",
        "`berth.kvm.prepare_hosts --limit HOST -e kvm_host_forget_failed_builds=true`. Its failed builds are in the table of",
        "`berth.kvm.host_facts`, in that of `berth.kvm.doctor` and in the [report](../report.md).",
        "Each page ends with an example: variables of an instance, and what comes of them on two hosts.",
        "",
        "## Filters",
        "",
        "Bold: enabled by default.",
        "",
        "| filter | a host passes when |",
        "| --- | --- |",
    ]
    for name, one in sorted(filters.items()):
        shown = "**[%s](filters/%s.md)**" if name in options.DEFAULT_FILTERS else "[%s](filters/%s.md)"
        lines.append("| %s | %s |" % (shown % (name, name), escaped(summary(one))))
    lines += ["", "## Weighers", "", "| weigher | what it does | multiplier (default) |", "| --- | --- | --- |"]
    for name, one in sorted(weighers.items()):
        lines.append("| [%s](weighers/%s.md) | %s | %s |" % (name, name, escaped(summary(one)), multiplier(one)))
    return "\n".join(lines) + "\n"


def options_page(filters, weighers):
    lines = [
        "<!-- Written by docs/generate.py. -->",
        "# Options of placement",
        "",
        "All of them are keys of the variable `berth_placement`. An unknown name is an error that says what was meant.",
        "",
        "| option | default | lowest | what it means |",
        "| --- | --- | --- | --- |",
    ]
    users = users_of(filters, weighers)
    known = dict(options.OPTIONS)
    known.update({"metrics." + name: spec for name, spec in options.METRICS.items()})
    for one in [*filters.values(), *weighers.values()]:
        declared = one.options if isinstance(one.options, dict) else {}
        known.update({name: (default, None) for name, default in declared.items() if name not in known})
    for name, (default, low) in sorted(known.items()):
        said = GENERAL.get(name) or ", ".join("[%s](%s)" % user for user in users.get(name, ()))
        if not said:
            raise SystemExit("docs/generate.py: say in GENERAL what the option %s means" % name)
        lines.append("| `%s` | `%s` | %s | %s |" % (name, json.dumps(default), "" if low is None else low, said))
    lines += [
        "",
        "Known and without effect here, so that a nova.conf can be taken over: "
        + ", ".join("`%s`" % name for name in sorted(options.WITHOUT_EFFECT))
        + ".",
    ]
    return "\n".join(lines) + "\n"


def users_of(filters, weighers):
    """{option: [(class, page)]}: whose docstring, declaration or multiplier names it."""
    users = {}
    for kind, classes in (("filters", filters), ("weighers", weighers)):
        for name, one in sorted(classes.items()):
            told = set(re.findall(r"[a-z_.]{4,}", parsed(one)[1].get("Options", "")))
            told |= set(one.options if isinstance(one.options, dict) else ())
            told |= {one.multiplier_option} if kind == "weighers" else set()
            for option in told:
                users.setdefault(option, []).append((name, "%s/%s.md" % (kind, name)))
    return users


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
