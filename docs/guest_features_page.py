# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/guest-features.md, from the table of image properties and extra specs."""

from __future__ import annotations

from table_cell import escaped

from ansible_collections.berth.kvm.plugins.module_utils.model import guest_features, image_properties

# What an instance's variables bring into its guest beside the user data.
GUEST_DATA = """
## What a guest gets beside its user data

The seed is a NoCloud disk. `berth_metadata` is in its `meta-data`: in a guest with cloud-init
`cloud-init query ds.meta_data` shows it as `berth-metadata`, and templates in the user data have it as
`{{ ds.meta_data.berth_metadata.NAME }}`. Values are text: YAML reads an unquoted `yes` as true, so it becomes `"true"`;
`"yes"` in quotes stays.

| variable | in the vendor-data | when |
| --- | --- | --- |
| `berth_files` | `write_files`; files of other users than root are written last, when there are users | at the first boot |
| `berth_admin_password_hash` | `user.hashed_passwd`, for the first user; the image must let sshd accept passwords | at the first boot |
| `berth_disk_config` | `growpart` and `resize_rootfs`; an image forbids `auto` by `hw_auto_disk_config: disabled` | at each boot |

Vendor-data is separate from the user data, which is passed on unchanged, byte by byte. cloud-init drops a key of the
vendor-data that the user data has too, so a request with both (such as `berth_files` and `write_files`) is refused if
the user data can be read; behind an `#include` it cannot. If an image's cloud-init ignores vendor-data, it ignores all
of this. Files and hash are only in the seed: not in the record, a receipt, a log or a message. They are read when the
instance is created, and so are `berth_ssh_keys` and the key pairs in `berth_key_names`: an existing guest keeps what it
has, even if a key pair is no longer defined. At most 64 files, 1 MiB together.

### User data

`berth_user_data` is text, its base64, or base64 of gzip, which is unpacked. Each platform gets what it reads, unchanged:

| user data | recognised by | how the guest gets it |
| --- | --- | --- |
| cloud-init: cloud-config, scripts, MIME, `## template: jinja` | its first line | the seed |
| Ignition (CoreOS, Flatcar) | JSON with `ignition.version` | QEMU's `fw_cfg`, from a file `ignition` beside the disks; the seed |
| Talos | `version: v1alpha1`, with `machine` or `cluster` | the seed: use the nocloud image |
| cloudbase-init (Windows) | `#ps1`, `rem cmd`, `<powershell>` | the seed |
| Butane | `variant` and `version` | refused: compile it with `butane --strict FILE` |

Ansible templates variables, so write text with `{{ }}` for cloud-init's jinja with the tag `!unsafe`. Ignition and Talos
do not read vendor-data: `berth_files`, `berth_admin_password_hash` and `berth_disk_config` beside them are refused.
Ignition on QEMU does not read `berth_ssh_keys` either: name the keys in its JSON. Guests with Ignition were tested up to the
definition and its file, and not with such an image; `fw_cfg` needs libvirt 6.5, and x86 or ARM.

`create` and `place` warn once of new instances that nobody could log in to (no whole key, password hash, user data or
guest agent, and no volume to boot from), of keys that sshd takes from nobody, and of instances without a NIC.

### Addresses at which it is reached

`berth_access_ip_v4` and `berth_access_ip_v6` are Nova's access_ip: the address at which the guest is reached, for
example one that a router translates. The guest does not learn them. The record keeps them as they were when the
instance was created, `show` prints them, and the inventory plugin sets `ansible_host` from them.

## A kernel of its own

An image with `kernel` (and `initrd`), each a `url` and a `checksum`, or with the properties `kernel_id` and
`ramdisk_id`, which name other images of `disk_format` raw, boots that kernel and not from its disk; `os_command_line`
is its command line. Both files are cached and checked as images are, and are kept beside the disks of the instance, so
a move takes them along and needs no web server. Such an image has no UEFI firmware. A resize keeps the kernel.

## Windows

`os_type: windows` gives the guest a clock in local time and, under KVM, what Windows uses of Hyper-V: Nova's list, which
leaves out `evmcs` and, since QEMU does not migrate it live, `reenlightenment`. Local time is that of the host, so give all
hosts the same time zone. As in Nova, disks and NICs stay virtio: for an image without virtio drivers set `hw_disk_bus: sata`
and `hw_vif_model: e1000e`. An instance from an earlier version gets this, and loses `reenlightenment`, with its next
definition, for example after a cold migration.

## TPM and locked memory

`hw:tpm_version: "2.0"` gives the guest a TPM that swtpm emulates; hosts without swtpm (Debian: `swtpm`, `swtpm-tools`)
are left out. libvirt keeps its state on that host, in `/var/lib/libvirt/swtpm`, unencrypted, and removes it with the
instance. The state is not among the disks, so an instance with a TPM cannot be resized or migrated
(`OperationNotSupportedForVTPM`). In the lab, which has no AppArmor, such a guest was created, stopped, started with the
same TPM, and deleted. Whether the guest finds again what it stored in its TPM was not tested.

`hw:locked_memory` needs `hw:mem_page_size`, as in Nova. Tests check it in the definition that libvirt reads back; it
was not tried on hardware.

## Real-time CPUs

`hw:cpu_realtime: "yes"` beside `hw:cpu_policy: dedicated` (or `mixed`) gives the vCPUs of `hw:cpu_realtime_mask` (the
image's mask overrides the flavor's; `^0` is all but the first) the scheduler `fifo` with priority 1. The memory is
locked and not shared, there is no PMU, and the emulator's threads run on the CPUs of the other vCPUs. If all vCPUs are
real-time, `hw:emulator_threads_policy: isolate` gives these threads a CPU of their own. Such a guest needs a host with
CPUs for pinning. As with Nova, berth does not check that the host's kernel is a real-time one: set a trait such as
`CUSTOM_REALTIME` in the host's settings, and `trait:CUSTOM_REALTIME=required` in the flavor.

## Ceilings of CPUs and memory

A guest of a flavor with ceilings is started with the flavor's CPUs and memory, and has places for more. A resize on its host
to a flavor with the same ceilings then [needs no restart](resize-and-migrate.md#without-a-restart):

    berth_flavors:
      small: {vcpus: 2, memory_mb: 4096, root_gb: 20, extra_specs: {"berth:max_vcpus": 8, "berth:max_memory_mb": 32768}}
      large: {vcpus: 4, memory_mb: 8192, root_gb: 20, extra_specs: {"berth:max_vcpus": 8, "berth:max_memory_mb": 32768}}

| extra spec | a running guest gets | values |
| --- | --- | --- |
| `berth:max_vcpus` | up to so many vCPUs | from the flavor's `vcpus` to 255 |
| `berth:max_memory_mb` | up to so much memory, in at most 16 steps | from `memory_mb`; both are multiples of 128 |

Ceilings claim no room and count in no quota: only what a guest has counts. A guest that exists has no places until it is
resized to such a flavor, which restarts it. Refused beside ceilings (`InvalidInput`), because they tie CPUs or memory to what
a guest was started with: `hw:cpu_policy` dedicated or mixed and so real-time CPUs, `hw:numa_nodes`, `hw:mem_page_size`,
encrypted memory; `hw:cpu_sockets`, `cpu_cores` and `cpu_threads` beside `berth:max_vcpus`; and the same in the image.

## Limits of CPUs, disks and networks

`quota:*` in a flavor's extra specs are Nova's limits, with its units. A guest gets them at its create and at a resize, and
keeps them in every move. [`update`](update.md) changes those of a running guest.

| extra spec | limits | unit |
| --- | --- | --- |
| `quota:cpu_shares` | the guest's part where CPUs are short, beside 100 of a guest without; at most 10000, cgroup v2's most | weight |
| `quota:cpu_quota`, `quota:cpu_period` | the time that each vCPU gets in a period; a period is 100000 by default | microseconds |
| `quota:disk_read_bytes_sec` and `quota:disk_write_bytes_sec`, or `quota:disk_total_bytes_sec` | each own disk | bytes a second |
| `quota:disk_read_iops_sec` and `quota:disk_write_iops_sec`, or `quota:disk_total_iops_sec` | the same | requests a second |
| `quota:vif_inbound_average`, `quota:vif_inbound_peak`; `outbound` too | each NIC; peak and burst need the average | KiB/s |
| `quota:vif_inbound_burst`, `quota:vif_outbound_burst` | what goes at the speed of the peak | KiB |

0 is no limit, and so is a negative `quota:cpu_quota`. Volumes are not limited, as in Nova, where the volume's type does that;
nor are NICs that are a function of a network card. Limits of CPUs need the cgroup controller `cpu`, those of NICs the kernel modules
`sch_htb`, `sch_sfq` and `sch_ingress`. On a running guest, limits of disks were tried with QEMU; those of CPUs and NICs in the
definition, and up to libvirt's call on a host that has neither. What Nova knows for other hypervisors is refused. `list` and `doctor` tell
of limits that somebody changed by hand.

## A virtual IOMMU

`hw:viommu_model` or the image's `hw_viommu_model` is `intel` (x86, machine type q35), `smmuv3` (ARM, machine type virt)
or `virtio` (both); `auto` is `virtio`. Hosts report what they have with the traits `COMPUTE_VIOMMU_MODEL_*`: `virtio`
and `auto` with libvirt 8.3 and QEMU 7.0. Other hosts are left out, and the verdict says so. Flavor and image must
agree.

## Encrypted memory

`hw:mem_encryption: "true"`, or `hw_mem_encryption` of the image, is AMD SEV (`hw:mem_encryption_model` `amd-sev`;
SEV-ES, SEV-SNP and TDX are refused). It needs UEFI firmware without secure boot and machine type q35. A host reports
with the trait `HW_CPU_X86_AMD_SEV` that libvirt can do it there, and with `encrypted_guests` in its facts how many such
guests it may have; each claims one `MEM_ENCRYPTION_CONTEXT`. The memory is locked, the policy is Nova's (`0x0033`),
each virtio device goes through the guest's own translation. Such a guest cannot be migrated while it runs
(`OperationNotSupportedForSEV`); resize and cold migration work. Tests check real-time CPUs, virtual IOMMU and encrypted
memory with the rendered definition and with recorded capabilities of hosts. None was tried on hardware.

## vGPUs

`resources:VGPU: "1"` in a flavor's extra specs is a vGPU: a mediated device of a GPU on the host, with VFIO's interface
for PCI. A host offers the types that its variable names, one type for each GPU (Nova: `[devices] enabled_mdev_types`):

    berth_host_enabled_mdev_types:
      - {type: nvidia-35, parents: ["0000:84:00.0"]}    # this GPU
      - {type: nvidia-36}                               # and every other one that has the type

`berth.kvm.prepare_hosts` writes it to the host; `ls /sys/class/mdev_bus/*/mdev_supported_types` there shows GPUs and
types. Its facts list the GPUs as `vgpus`, with how many vGPUs each has in total and how many are claimed or were made
by others. A GPU is a resource provider of its own, as in Nova: all vGPUs of an instance, at most 16, are of one GPU.
Its type is a trait of the GPU and not of the host: `trait:CUSTOM_NVIDIA_36: required` beside `resources:VGPU` asks for
that type, `forbidden` for another. One numbered group may ask for them too (`resources1:VGPU`, `trait1:...`).

The claim fixes the GPU, the type and a uuid, which follows from that of the instance. The mediated device is made
before each start, also after the host's reboot, and removed when the instance is stopped, moved away or deleted, or
when its build fails; the claim holds the place until then. If the GPU is gone, its host no longer enables the type,
others took the place, or somebody else made a device under the uuid, the error is `VgpuUnavailable`, before the guest
is touched. Devices of others are counted and left alone. The [doctor](doctor.md) finds devices of instances that have
no record any more, for example after records were restored from a backup.

Resize and cold migration claim a vGPU on the destination; the source's is free when the move is confirmed. A guest with
a vGPU cannot be resized on its own host, nor migrated while it runs. If a GPU's driver has no mediated devices, as
NVIDIA's on kernels since 6.8, use [PCI devices](catalog.md#berth_pci_aliases). Tests check the definition, which
libvirt's schema accepts, and use files as the kernel has them below `/sys`. Not tried on hardware.
""".strip().splitlines()


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
    for title, table in (
        ("Image properties", guest_features.image_fates()),
        ("Extra specs", guest_features.extra_specs()),
    ):
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
    if isinstance(fate, image_properties.Refused):
        return "refused" + (" but for %s" % ", ".join(sorted(fate.harmless)) if fate.harmless else "")
    if isinstance(fate, image_properties.ForPlacement):
        return "for placement and people only"
    return "built" + (": %s" % fate.rule.removeprefix("built are ") if fate.words or fate.pattern else "")
