# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's query to Placement before any filter runs: which hosts are candidates at all.

Each rule is a function with the name of Nova's request filter. It adds its terms to a Query, which then judges hosts.
"""

from __future__ import annotations

from . import capacity, features, networks_and_pools
from .base import Verdict
from .errors import NoValidHost
from .requested import requested

TENANT_KEY = "filter_tenant_id"
IMAGE_TYPES = frozenset("AKI AMI ARI ISO QCOW2 RAW VDI VHD VHDX VMDK PLOOP".split())
_METADATA_TRAITS = (
    ("hw_cdrom_bus", "COMPUTE_STORAGE_BUS"),
    ("hw_disk_bus", "COMPUTE_STORAGE_BUS"),
    ("hw_video_model", "COMPUTE_GRAPHICS_MODEL"),
    ("hw_vif_model", "COMPUTE_NET_VIF_MODEL"),
    ("hw_architecture", "HW_ARCH"),
    ("hw_emulation_architecture", "COMPUTE_ARCH"),
    ("hw_viommu_model", "COMPUTE_VIOMMU"),
)
_TRAIT_VALUES = {
    "COMPUTE_STORAGE_BUS": "FDC IDE LXC SATA SCSI USB VIRTIO UML XEN",
    "COMPUTE_GRAPHICS_MODEL": "BOCHS CIRRUS GOP NONE QXL VGA VIRTIO VMVGA XEN",
    "COMPUTE_NET_VIF_MODEL": "E1000 E1000E LAN9118 NETFRONT NE2K_PCI PCNET RTL8139 SPAPR_VLAN SRIOV VIRTIO VMXNET VMXNET3 IGB",
    "HW_ARCH": "ALPHA ARMV6 ARMV7 ARMV7B AARCH64 CRIS I686 IA64 LM32 M68K MICROBLAZE MICROBLAZEEL MIPS MIPSEL MIPS64 MIPS64EL "
    "OPENRISC PARISC PARISC64 PPC PPCLE PPC64 PPC64LE PPCEMB S390 S390X SH4 SH4EB SPARC SPARC64 UNICORE32 X86_64 XTENSA XTENSAEB",
    "COMPUTE_ARCH": "AARCH64 PPC64LE MIPSEL S390X RISCV64 X86_64",
    "COMPUTE_VIOMMU": "MODEL_INTEL MODEL_SMMUV3 MODEL_VIRTIO MODEL_AUTO",
}


class Query:
    """The terms that a host must meet to be a candidate."""

    def __init__(self, spec, options):
        self.spec = spec
        self.ask = requested(spec)
        self.networks_and_pool = networks_and_pools.NetworksAndPool(spec)
        self.fallback = None
        if self.ask.pinned and not options["disable_fallback_pcpu_query"]:
            self.fallback = requested(spec, pin=False)
        self.root_required = []  # (trait, name of the rule)
        self.member_of = []  # (rule, set of aggregate uuids, what was asked)
        self.not_member_of = {}  # aggregate uuid: name
        self.in_tree = None

    def amounts(self, host_state):
        """Return the amounts to claim on a candidate: pinned CPUs if it has them, else the fallback."""
        pinned = self.fallback is None or self._answers(host_state, self.ask)
        return capacity.ask_of(host_state, self.ask if pinned else self.fallback, self.spec).amounts

    def passes(self, host_state):
        traits = host_state.traits
        if "COMPUTE_STATUS_DISABLED" in traits:
            return False
        if self.in_tree is not None and host_state.uuid != self.in_tree:
            return False
        if any(trait not in traits for trait, _rule in self.root_required):
            return False
        if self.member_of or self.not_member_of:
            own = {aggregate.uuid for aggregate in host_state.aggregates}
            if any(not wanted & own for _rule, wanted, _what in self.member_of):
                return False
            if any(uuid in self.not_member_of for uuid in own):
                return False
        if self.networks_and_pool.lacks(host_state.document):
            return False
        return self._answers(host_state, self.ask) or (
            self.fallback is not None and self._answers(host_state, self.fallback)
        )

    def _answers(self, host_state, ask):
        traits = host_state.traits
        ask = capacity.ask_of(host_state, ask, self.spec)
        if not ask.required <= traits or ask.forbidden & traits or ask.unanswerable:
            return False
        if len(ask.groups) == 1 and capacity.fits(host_state, ask.amounts):
            return True
        lowers = capacity.lowered(host_state, self.spec)
        if len(ask.groups) == 1 and not lowers:
            return False
        return not capacity.request_shortfalls(host_state, ask, lowers)

    def check_bound(self):
        """A zone, an aggregate or a target is part of the group without a number, and Placement refuses one without amounts."""
        if self.in_tree is not None or self.member_of or self.not_member_of:
            for ask in filter(None, (self.ask, self.fallback)):
                if None not in ask.groups and not ask.unanswerable:
                    ask.unanswerable = (
                        "the flavor has amounts in numbered groups alone, "
                        "and the request is bound to a zone, an aggregate or a host"
                    )

    @property
    def is_plain(self):
        """Whether the request asks only for amounts, networks and a pool."""
        return len(self.ask.groups) == 1 and self.rules() == [
            ["compute_status_filter", {}],
            *self.networks_and_pool.rules(),
        ]

    def rules(self):
        """Return [[rule, numbers]]: verdicts() of a host that passes, without capacity and membership of aggregates."""
        passed = [["compute_status_filter", {}]]
        if self.in_tree is not None:
            passed.append(["requested_destination", {}])
        if self.not_member_of:
            passed.append(["isolate_aggregates", {"aggregates": []}])
        passed += self.networks_and_pool.rules()
        passed += [[rule, {"required": [trait]}] for trait, rule in self.root_required]
        if self.ask.required or self.ask.forbidden:
            passed.append(["traits", {"lacks": [], "forbidden": []}])
        return passed

    def verdicts(self, host_state):
        """Return [(rule, Verdict)]: every rule with its reason and numbers; for explanations."""
        spec, traits, found = self.spec, host_state.traits, []

        def say(rule, passed, reason="", **numbers):
            found.append((rule, Verdict(passed, "" if passed else reason, numbers)))

        disabled = "COMPUTE_STATUS_DISABLED" in traits
        say(
            "compute_status_filter",
            not disabled,
            "the host is disabled: %s" % (host_state.service.get("disabled_reason") or "no reason given"),
        )
        if self.in_tree is not None:
            say("requested_destination", host_state.uuid == self.in_tree, _asked_for(spec))
        own = {aggregate.uuid: aggregate.name for aggregate in host_state.aggregates}
        for rule, wanted, what in self.member_of:
            say(rule, bool(wanted & set(own)), "is in no aggregate of %s" % what, aggregates=sorted(own.values()))
        if self.not_member_of:
            bad = sorted(name for uuid, name in own.items() if uuid in self.not_member_of)
            say(
                "isolate_aggregates",
                not bad,
                "its aggregates %s are isolated by a trait not asked for" % ", ".join(bad),
                aggregates=bad,
            )
        lacking = self.networks_and_pool.lacks(host_state.document)
        for rule, numbers in self.networks_and_pool.rules():
            say(rule, rule not in lacking, lacking.get(rule, ""), **numbers)
        if networks_and_pools.FREE_BYTES in lacking:
            say(networks_and_pools.FREE_BYTES, False, lacking[networks_and_pools.FREE_BYTES])
        for trait, rule in self.root_required:
            say(rule, trait in traits, "lacks trait %s" % trait, required=[trait])
        found += self._amounts_verdicts(host_state)
        if spec.requested_destination and spec.requested_destination.get("cell") and not self.same_cell(host_state):
            say(
                "cell",
                False,
                "is in cell %s, asked for %s" % (host_state.cell_uuid, spec.requested_destination["cell"]),
            )
        return found

    def _amounts_verdicts(self, host_state):
        """[(rule, Verdict)] of the traits and amounts asked for, in the form (pinned or not) that fits."""
        ask, found = self.ask, []
        if (
            self.fallback is not None
            and not self._answers(host_state, ask)
            and self._answers(host_state, self.fallback)
        ):
            ask = self.fallback
        ask, asked = capacity.ask_of(host_state, ask, self.spec), ask
        if asked.required or asked.forbidden:
            lacks, has = sorted(ask.required - host_state.traits), sorted(ask.forbidden & host_state.traits)
            reasons = ["lacks trait " + trait for trait in lacks] + ["has forbidden trait " + trait for trait in has]
            found.append(("traits", Verdict(not reasons, ", ".join(reasons), {"lacks": lacks, "forbidden": has})))
        short = capacity.request_shortfalls(host_state, ask, capacity.lowered(host_state, self.spec))
        used = {name: host_state.used.get(name, 0) for name in ask.amounts}
        reason = "; ".join(shortfall["reason"] for shortfall in short)
        found.append(
            ("capacity", Verdict(not short, reason, {"asked": ask.amounts, "used": used, "shortfalls": short}))
        )
        return found

    def same_cell(self, host_state):
        destination = self.spec.requested_destination or {}
        cell = destination.get("cell")
        return not cell or bool(destination.get("allow_cross_cell_move")) or host_state.cell_uuid == cell


def _asked_for(spec):
    """Return why only one host will do: the ``why`` of the code that bound the request to it, else the default."""
    return (spec.requested_destination or {}).get("why") or "another host was asked for"


def limited(spec, target_is_one):
    """Whether max_placement_results applies: not with a group or the same_host and different_host hints."""
    if spec.instance_group is not None or any(
        hint in spec.scheduler_hints for hint in ("group", "same_host", "different_host")
    ):
        return False
    return target_is_one is not False


def require_tenant_aggregate(query, options, aggregates):
    if not options["limit_tenants_to_placement_aggregate"]:
        return
    project = query.spec.project_id
    own = {
        aggregate.uuid
        for aggregate in aggregates
        if any(key.startswith(TENANT_KEY) and value == project for key, value in aggregate.metadata.items())
    }
    if own:
        query.member_of.append(("require_tenant_aggregate", own, "project %s" % project))
    elif options["placement_aggregate_required_for_tenants"]:
        raise NoValidHost("no hosts available for tenant %s: no aggregate has it" % project)


def map_az_to_placement_aggregate(query, options, aggregates):
    zone = query.spec.availability_zone
    if zone:
        own = {aggregate.uuid for aggregate in aggregates if aggregate.metadata.get("availability_zone") == zone}
        if own:
            query.member_of.append(("map_az_to_placement_aggregate", own, "availability zone %s" % zone))


def require_image_type_support(query, options, aggregates):
    if options["query_placement_for_image_type_support"] and not query.spec.is_bfv and query.spec.image:
        kind = query.spec.image.disk_format.upper()
        if kind in IMAGE_TYPES:
            query.root_required.append(("COMPUTE_IMAGE_TYPE_" + kind, "require_image_type_support"))


def isolate_aggregates(query, options, aggregates):
    if not options["enable_isolated_aggregate_filtering"]:
        return
    asked = {"trait:" + trait for trait in query.ask.required}
    for aggregate in aggregates:
        if any(
            key.startswith("trait:") and value == "required" and key not in asked
            for key, value in aggregate.metadata.items()
        ):
            query.not_member_of[aggregate.uuid] = aggregate.name


def transform_image_metadata(query, options, aggregates):
    if not options["image_metadata_prefilter"]:
        return
    found = []
    for key, prefix in _METADATA_TRAITS:
        value = query.spec.image_props.get(key)
        if value is not None:
            value_name = value.replace("-", "_").upper()
            if value_name not in _TRAIT_VALUES[prefix].split():
                return
            found.append(("%s_%s" % (prefix, value_name), "transform_image_metadata"))
    query.root_required += found


def accelerators_filter(query, options, aggregates):
    if query.spec.flavor.extra_specs.get("accel:device_profile"):
        query.root_required.append(("COMPUTE_ACCELERATORS", "accelerators_filter"))


def packed_virtqueue_filter(query, options, aggregates):
    if features.flag(query.spec.flavor, query.spec.image_props, "virtio_packed_ring"):
        query.root_required.append(("COMPUTE_NET_VIRTIO_PACKED", "packed_virtqueue_filter"))


def ephemeral_encryption_filter(query, options, aggregates):
    spec = query.spec
    asked, kind = features.ephemeral_encryption(spec.flavor, spec.image_props)
    if not asked:
        return
    query.root_required.append(("COMPUTE_EPHEMERAL_ENCRYPTION", "ephemeral_encryption_filter"))
    if kind:
        query.root_required.append(("COMPUTE_EPHEMERAL_ENCRYPTION_" + kind.upper(), "ephemeral_encryption_filter"))


def virtio_sound_filter(query, options, aggregates):
    spec = query.spec
    if features.choice(spec.flavor, spec.image_props, "sound_model", features.SOUND_MODELS) == "virtio":
        query.root_required.append(("COMPUTE_SOUND_MODEL_VIRTIO", "virtio_sound_filter"))


def tpm_secret_security_filter(query, options, aggregates):
    spec = query.spec
    if features.tpm(spec.flavor, spec.image_props):
        security = spec.flavor.extra_specs.get("hw:tpm_secret_security") or "user"
        if security not in ("user", "host", "deployment"):
            raise NoValidHost("TPM secret security %r is not supported" % security)
        query.root_required.append(
            ("COMPUTE_SECURITY_TPM_SECRET_SECURITY_" + security.upper(), "tpm_secret_security_filter")
        )


REQUEST_FILTERS = (
    require_tenant_aggregate,
    map_az_to_placement_aggregate,
    require_image_type_support,
    isolate_aggregates,
    transform_image_metadata,
    accelerators_filter,
    packed_virtqueue_filter,
    ephemeral_encryption_filter,
    virtio_sound_filter,
    tpm_secret_security_filter,
)


def query_for(spec, options, aggregates, host_states):
    """Return (Query, limit) of a request, its target resolved; NoValidHost if no such host or tenant aggregate exists.

    ``limit`` is the largest number of candidates, or None.
    """
    query = Query(spec, options)
    for rule in REQUEST_FILTERS:
        rule(query, options, aggregates)
    destination = spec.requested_destination or {}
    host = destination.get("host") or (spec.force_hosts[0] if spec.force_hosts else None)
    node = destination.get("node") or (spec.force_nodes[0] if spec.force_nodes else None)
    only_one = None
    if host or node:
        nodes = [
            each for each in host_states if (not host or each.host == host) and (not node or each.nodename == node)
        ]
        if host and node:
            nodes = nodes[:1]
        if not nodes:
            raise NoValidHost("%s, which the request names, is not among the hosts that can be used" % (node or host))
        only_one = len(nodes) == 1
        if only_one:
            query.in_tree = nodes[0].uuid
            if spec.requested_destination is not None:
                spec.requested_destination = dict(destination, host=nodes[0].host, node=nodes[0].nodename)
    query.check_bound()
    return query, options["max_placement_results"] if limited(spec, only_one) else None
