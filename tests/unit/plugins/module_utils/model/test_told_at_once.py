# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All faults are told at once, each once."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.catalog_schema import IMAGES, INSTANCE, NETWORKS
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput, joined
from ansible_collections.berth.kvm.plugins.module_utils.model.errors_of_instances import (
    each_once,
    of_several,
    worded_all,
)

LONG = "Set it where every instance inherits it, such as in group_vars/all.yml, and not with -e"


def faults(check, value):
    with pytest.raises(InvalidInput) as refused:
        check.check(value, "it")
    return [error.field for error in (refused.value, *refused.value.also)]


def network(**parts):
    return {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24", **parts}}


def test_what_two_fields_say_together_is_told_beside_a_third_that_is_wrong():
    elsewhere = network(gateway="198.51.100.1", pool={"ranges": ["203.0.113.1"]}, mtu="9k")
    assert faults(NETWORKS, elsewhere) == ["it.lan.mtu", "it.lan.gateway", "it.lan.pool.ranges[0]"]


def test_of_a_field_that_is_wrong_by_itself_nothing_more_is_said():
    assert faults(NETWORKS, network(cidr="192.0.2.0/99", gateway="192.0.2.1")) == ["it.lan.cidr"]
    url = {"url": "a b", "checksum": "sha256:" + "0" * 64, "disk_format": "raw"}
    assert faults(IMAGES, {"guest": url}) == ["it.guest.url"]


def test_what_is_hidden_stays_hidden_beside_a_field_that_is_shown():
    files = [{"path": "etc/motd", "content": ["s3cr3t"], "mode": 644}]
    with pytest.raises(InvalidInput) as refused:
        INSTANCE["berth_files"].check(files, "it")
    assert "etc/motd" in str(refused.value) and "s3cr3t" not in str(refused.value)
    assert [error.field for error in refused.value.also] == ["it[0].content", "it[0].mode"]


def test_texts_that_differ_in_the_own_name_alone_take_one_line():
    told = each_once((name, "NotFound: %s is nowhere" % name) for name in ("a-1", "a-2", "a-3"))
    assert told == ["a-1: NotFound: a-1 is nowhere. The same of a-2, a-3"]
    assert each_once([("a", "web1 is nowhere"), ("b", "web2 is nowhere")]) == [
        "a: web1 is nowhere",
        "b: web2 is nowhere",
    ]


def test_a_name_that_the_text_begins_with_is_not_said_before_it():
    assert each_once([("a", "a is nowhere")]) == ["a is nowhere"]
    assert each_once([("a", "a is nowhere"), ("b", "a is nowhere")]) == ["a, b: a is nowhere"]


def test_a_long_advice_comes_once_and_a_short_one_with_each_fault():
    def fault(field, hint):
        return InvalidInput(field, 1, None, hint=hint)

    assert worded_all([("x", None, LONG), ("y", None, LONG)]) == "x; y. " + LONG
    assert worded_all([("x", None, "Quote it"), ("y", None, "Quote it")]) == "x. Quote it; y. Quote it"
    several = of_several([("a", joined([fault("x", LONG), fault("y", LONG)])), ("b", fault("z", LONG))])
    assert str(several).count(LONG) == 1
