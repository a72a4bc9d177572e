# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of docs/placement, from the docstrings of filters and weighers."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import placement_examples
from table_cell import escaped

from ansible_collections.berth.kvm.plugins.module_utils.placement import options
from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Weigher

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by docs/generate.py from the docstring in %s: change it there. -->\n"
LABELS = ("Options", "Aggregate metadata", "Group rule", "Host", "Source")
# What the options mean that belong to no filter and no weigher.
GENERAL = {
    "driver": "filter: all of this; chance: any host that is up; fake: the first",
    "enabled_filters": "the filters, in the order they are asked; class names, or ns.coll.name of any collection",
    "available_filters": "which filters may be enabled: names as in enabled_filters, or all_filters for every one there is",
    "weight_classes": "the weighers; all_weighers stands for those of Nova",
    "host_subset_size": "choose at random among the best N hosts",
    "shuffle_best_same_weighed_hosts": "shuffle the hosts that weigh the same as the best",
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

RANDOM = (
    "## Random choices",
    "",
    "`host_subset_size`, `shuffle_best_same_weighed_hosts` and `driver: chance` draw lots. Each decision draws its own seed, so",
    "controllers that place at the same time do not all choose the same host. The table of `create` says `drawn among 4 hosts,",
    "seed 481516234`, and the [receipt](../receipts.md) has the seed: `berth.kvm.replay` draws the same again. On hosts that",
    "report the same as then, `-e berth_seed=481516234` makes the same choice. `create` with `berth_approved` uses the seed of",
    "the `place` that was approved. If such a run is interrupted, the instances that are left may draw other hosts, which is",
    "refused with `NotApproved`: run `place` again.",
)


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
    if issubclass(one, Weigher) and not any("Normalised" in part for part in described):
        described.append("Normalised %s." % scale(one, "negative raw weights count as 0"))
    return [part for part in described if part], labels


def scale(weigher, below=""):
    """Between which weights those of the hosts are scaled; ``below`` says what becomes of those below the smallest."""
    low, high = weigher.minval, weigher.maxval
    smallest = "the smallest" if low is None else "%g" % low
    return "from %s to %s" % (smallest, "the largest" if high is None else "%g" % high) + (
        " (%s)" % below if below and low is not None else ""
    )


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


def source_of(one):
    return NOTE % Path(inspect.getsourcefile(one)).resolve().relative_to(ROOT)


def page(one, kind, facts, **usual):
    """``usual``: the text of labels that the docstring leaves out."""
    described, labels = parsed(one)
    labels = {"Options": "none", "Aggregate metadata": "none", **usual, **labels}
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
    return page(
        one,
        "weighers",
        [
            ("multiplier", multiplier(one)),
            ("normalised", scale(one) + " of the hosts that passed"),
            ("part of all_weighers", "yes" if one.default else "no, name it in weight_classes"),
        ],
        **{"Options": multiplier(one).partition(",")[0], "Aggregate metadata": one.multiplier_option},
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
        "`berth.kvm.prepare_hosts --limit HOST -e berth_host_forget_failed_builds=true`. Its failed builds are in the table of",
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
            raise SystemExit("docs/placement_pages.py: say in GENERAL what the option %s means" % name)
        lines.append("| `%s` | `%s` | %s | %s |" % (name, json.dumps(default), "" if low is None else low, said))
    lines += [
        "",
        "Known and without effect here, so that a nova.conf can be taken over: "
        + ", ".join("`%s`" % name for name in sorted(options.WITHOUT_EFFECT))
        + ".",
        "",
        *RANDOM,
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
