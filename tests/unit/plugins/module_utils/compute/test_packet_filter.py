# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filters of a guest come and go with it, follow its groups, and are told and added where one lacks."""

from __future__ import annotations

import copy
import re
from xml.etree import ElementTree

import fake_libvirt
import pytest
from instance_case import Case
from packet_filter_case import MAC, OPEN, UUID, nic, rule, secured

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BuildFailed,
    PacketFilterForeign,
    PacketFilterInUse,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain_xml, network, packet_filter, power
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift, outcome_of_create
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, packet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound

CLONE = "8c7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b"


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    monkeypatch.setattr(network, "check", lambda *_: None)
    case = Case(prepared, wanted("web1"))
    case.spec["networks"] = [nic(secured(rule(ports="80-80")), address="192.0.2.7/24")]
    return case


def label(web):
    return packet_filter.name(web.uuid, 0)


def changed(web, *rules):
    """The request as the catalog makes it now."""
    return {**web.spec, "networks": [nic(secured(*rules), address="192.0.2.7/24")]}


def test_it_is_there_before_the_guest_runs_and_goes_with_it(web):
    web.make()
    libvirt = web.host.connection
    assert list(libvirt.filters) == [label(web)]
    assert '<filterref filter="%s"' % label(web) in web.domain.xml
    assert web.instance().filtered(web.spec) is False, "again is no change"
    web.instance().absent()
    assert libvirt.filters == {}


def test_one_that_is_left_without_its_guest_is_removed_by_a_delete(web):
    web.make()
    filters = dict(web.host.connection.filters)
    web.instance().absent()
    web.host.connection.filters.update(filters)
    assert web.instance().absent() is True
    assert web.host.connection.filters == {} and web.instance().absent() is False


def test_create_brings_new_rules_to_the_guest_that_runs_and_writes_them_down(web):
    web.make()
    new = changed(web, rule(ports="443-443"))
    assert web.instance().filtered(new, dry=True) is True
    assert "443" not in web.host.connection.filters[label(web)].xml, "check mode changes nothing"
    assert web.instance().filtered(new) is True
    assert 'dstportstart="443"' in web.host.connection.filters[label(web)].xml
    assert web.record.spec["networks"][0]["security"]["rules"][0]["ports"] == "443-443"
    assert (web.instance().filtered(new), web.domain.starts) == (False, 1)


def test_a_locked_guest_keeps_its_rules_until_it_is_unlocked(web):
    web.make()
    before, new = web.host.connection.filters[label(web)].xml, changed(web, rule(ports="443-443"))
    power.lock(web.instance(), "ann", "it is looked at")
    record = web.record
    assert web.instance().filtered(new, dry=True) is False and web.instance().filtered(new) is False
    assert web.host.connection.filters[label(web)].xml == before and web.record == record
    power.unlock(web.instance())
    assert web.instance().filtered(new) is True and "443" in web.host.connection.filters[label(web)].xml


def test_port_security_that_is_switched_off_leaves_a_filter_that_lets_all_through(web):
    web.make()
    off = {**web.spec, "networks": [nic(None, address="192.0.2.7/24")]}
    assert web.instance().filtered(off) is True
    assert ElementTree.fromstring(web.host.connection.filters[label(web)].xml).findall("rule") == []
    assert web.instance().filtered(off) is False
    assert web.instance().filtered(changed(web, rule())) is True, "and back on"


def test_a_guest_that_was_made_without_a_filter_is_left_as_it_is(web):
    new = web.spec["networks"]
    web.spec["networks"] = [{key: value for key, value in new[0].items() if key != "security"}]
    web.make()
    assert web.instance().filtered({**web.spec, "networks": new}) is False
    assert web.host.connection.filters == {} and "filterref" not in web.domain.xml


def why(web):
    """What create's table says of the instance that is there."""
    instance = {
        "name": "web1", "state": "active", "host": "kvm1", "attempts": [], "error": None, "existing": True, "why": "is there",
        "spec": web.spec, "result": web.instance().summary(),
    }  # fmt: skip
    return outcome_of_create.outcomes({"instances": {"web1": instance}})[0].why


def without_filter(one):
    """A NIC as a version without filters made it."""
    return {key: value for key, value in one.items() if key not in ("security", "port_security")}


@pytest.fixture
def old(web):
    """A guest from before, whose inventory has said nothing of its NIC since."""
    wish = web.spec["networks"]
    web.spec["networks"] = [without_filter(wish[0])]
    web.make()
    web.domain.live = web.domain.xml
    web.spec = {**web.spec, "networks": wish}
    return web


def asked(*rules, **more):
    """The NIC as the inventory has it with port_security: true."""
    return nic(secured(*rules) if rules else OPEN, address="192.0.2.7/24", port_security=True, **more)


def create(case, dry=False, mends=True):
    """The reply of the host to a create, with berth_mend or without."""
    wanted = {
        "state": "present", "mend": mends, "seed": {}, "token": None, "spec": case.spec, "power_state": None,
        "shutdown_timeout": 1,
    }  # fmt: skip
    return power.outcome_of(case.instance(), wanted, dry, lambda: power.present(case.instance(), wanted, dry))


LACKS = "network interface %s has no packet filter" % MAC


@pytest.mark.follows("filter_nics")
def test_one_from_before_is_told_that_it_has_no_filter_and_gets_it_when_it_is_asked_for(old):
    assert why(old) == LACKS + ", so it is not in web. " + packet_hints.filter_nics("web1", False)
    create(old)
    assert old.host.connection.filters == {}, "groups alone change no guest from before"
    old.spec["networks"] = [asked(rule(ports="80-80"))]
    assert why(old) == LACKS + ", so it is not in web. " + packet_hints.filter_nics("web1", True)
    create(old)
    assert why(old) == "is there" and list(old.host.connection.filters) == [label(old)]
    assert 'dstportstart="80"' in old.host.connection.filters[label(old)].xml


def test_port_security_that_the_inventory_asks_for_is_told_until_somebody_has_it_followed(old):
    old.spec["networks"] = [asked()]
    assert create(old, mends=False)["changed"] is False
    assert why(old) == "%s. %s" % (LACKS, packet_hints.filter_nics("web1", True))
    assert old.host.connection.filters == {} and "security" not in old.record.spec["networks"][0]


def test_a_filter_that_is_asked_for_is_written_down_in_the_definition_and_before_the_running_guest(old):
    old.spec["networks"] = [asked()]
    before = old.record.generation
    reply = create(old)
    assert reply["changed"] and reply["instance"]["mended"] == (
        "repaired: network interface %s bridge br0 virtio -> bridge br0 virtio filter %s, "
        "network interface %s of the running guest none -> packet filter" % (MAC, label(old), MAC)
    )
    assert old.record.spec["networks"][0].get("security") == OPEN and old.record.generation > before
    for xml in (old.domain.xml, old.domain.live):
        assert xml.count('<filterref filter="%s"' % label(old)) == 1
    assert old.host.connection.filters[label(old)].xml == packet_filter.render(old.record)[label(old)]
    assert (why(old), create(old)["changed"], old.domain.starts) == ("is there", False, 1)


def test_the_filter_of_the_network_gives_way_to_the_guests_own_which_calls_it_first(old):
    for text in ("xml", "live"):
        xml = getattr(old.domain, text).replace("</interface>", '<filterref filter="clean-traffic" /></interface>')
        setattr(old.domain, text, xml)
    record = old.record.spec["networks"][0]
    old.host.store.compare_and_swap(
        old.record, old.record.next(spec={**old.record.spec, "networks": [{**record, "nwfilter": "clean-traffic"}]})
    )
    old.spec["networks"] = [asked(nwfilter="clean-traffic")]
    create(old)
    assert "clean-traffic" not in old.domain.live and label(old) in old.domain.live
    assert "clean-traffic" in old.host.connection.filters[label(old)].xml


def test_a_running_guest_before_which_libvirt_puts_no_filter_has_it_from_its_next_start_and_that_is_told(old):
    old.spec["networks"] = [asked()]
    old.domain.takes_no_more = True
    reply = create(old)["instance"]
    assert "running guest" not in reply["mended"] and "filterref" not in old.domain.live
    said = drift.of_domain("web1", reply["domain_differs"])
    assert said.startswith("live domain differs: network interface %s bridge br0 virtio" % MAC)
    assert said.endswith("repaired at the next start")
    assert '<filterref filter="%s"' % label(old) in old.domain.xml
    old.domain.takes_no_more = False
    assert create(old)["changed"] and "filterref" in old.domain.live, "the next run tries again"


def test_a_running_guest_is_not_touched_where_nobody_asks(web):
    web.make()
    web.domain.live = web.domain.xml.replace('<filterref filter="%s" />' % label(web), "")
    assert "filterref" not in web.domain.live
    create(web)
    assert "filterref" not in web.domain.live


def test_check_mode_says_that_a_nic_would_get_its_filter_and_changes_nothing(old):
    old.spec["networks"] = [asked()]
    before, xml, live = old.record.generation, old.domain.xml, old.domain.live
    reply = create(old, dry=True)
    assert reply["changed"] and reply["instance"]["mended"].startswith("would be repaired: network interface " + MAC)
    assert (old.record.generation, old.domain.xml, old.domain.live) == (before, xml, live)
    assert old.host.connection.filters == {}


def test_a_guest_that_libvirt_lost_gets_its_filter_with_its_definition(old):
    old.spec["networks"] = [asked()]
    old.instance().stopped(1)
    old.host.connection.domains.clear()
    assert "network interface %s none -> packet filter" % MAC in create(old)["instance"]["mended"]
    assert old.record.spec["networks"][0].get("security") == OPEN
    old.instance().started()
    assert '<filterref filter="%s"' % label(old) in old.domain.xml


def test_what_was_interrupted_before_the_definition_had_the_filter_is_finished_by_the_next_run(old, monkeypatch):
    old.spec["networks"] = [asked()]
    with monkeypatch.context() as broken:
        broken.setattr(domain_xml, "define_guest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            create(old)
    assert old.record.spec["networks"][0].get("security") == OPEN and "filterref" not in old.domain.xml
    assert create(old)["changed"] and '<filterref filter="%s"' % label(old) in old.domain.xml


def test_a_locked_instance_gets_no_filter(old):
    old.spec["networks"] = [asked()]
    power.lock(old.instance(), "ann", "")
    assert create(old)["changed"] is False and "security" not in old.record.spec["networks"][0]


@pytest.mark.parametrize("changes", [{"mac": "02:00:00:00:00:02"}, {"port_security": None}, {"security": None}])
def test_a_nic_for_which_nobody_asks_gets_no_filter(old, changes):
    old.spec["networks"] = [{**asked(), **changes}]
    assert create(old)["changed"] is False and "security" not in old.record.spec["networks"][0]


def test_a_nic_that_libvirt_cannot_filter_gets_no_filter():
    spec = {"networks": [without_filter(nic(virtualport="openvswitch"))]}
    assert packet_filter.with_asked_filters(spec, {"networks": [asked()]}) == (spec, [])


def test_where_the_host_cannot_filter_nothing_is_written_down(old, monkeypatch):
    def refuse(_connection, nics):
        assert [one["security"] for one in nics] == [OPEN]
        raise NetworkNotFound("this host has no packet filter", field="networks")

    monkeypatch.setattr(network, "check", refuse)
    old.spec["networks"] = [asked()]
    with pytest.raises(NetworkNotFound):
        create(old)
    assert "security" not in old.record.spec["networks"][0]


def test_one_from_before_is_not_told_of_port_security_which_is_nobodys_wish(old):
    old.spec["networks"] = [nic(OPEN, address="192.0.2.7/24")]
    assert why(old) == "is there"
    assert create(old)["changed"] is False and old.host.connection.filters == {}


@pytest.mark.parametrize("how", ["removed", "edited"])
def test_a_filter_that_was_changed_by_hand_is_brought_back_by_create_and_by_a_start(web, how):
    web.make()
    libvirt, wanted = web.host.connection, web.host.connection.filters[label(web)].xml
    for bring_back in (lambda: web.instance().filtered(web.spec), web.instance().started):
        web.instance().stopped(1)
        if how == "removed":
            del libvirt.filters[label(web)]
        else:
            libvirt.filters[label(web)].xml = wanted.replace(
                "<rule", '<rule action="accept" direction="in"><all /></rule><rule', 1
            )
        assert bring_back() is True
        assert libvirt.filters[label(web)].xml == wanted


@pytest.mark.follows("foreign_filter")
def test_a_filter_of_somebody_else_with_the_name_is_left_alone(web):
    foreign = fake_libvirt.FakeFilter(
        web.host.connection, '<filter name="%s"><uuid>%s</uuid></filter>' % (label(web), UUID)
    )
    web.host.connection.filters[label(web)] = foreign
    with pytest.raises(PacketFilterForeign) as refused:
        web.make()
    assert refused.value.hint == hints.foreign_filter(label(web))
    assert web.host.connection.filters == {label(web): foreign} and web.record is None and web.domain is None
    web.host.connection.filters["theirs"] = web.host.connection.filters.pop(label(web))
    assert web.make() is True


@pytest.mark.follows("filter_in_use")
def test_a_filter_that_a_clone_of_the_guest_uses_stays_until_it_is_taken_out_of_the_clone(web):
    web.make()
    libvirt = web.host.connection
    clone = libvirt.domains[CLONE] = copy.copy(web.domain)
    clone.uuid, clone.xml = (
        CLONE,
        web.domain.xml.replace(web.uuid + "<", CLONE + "<").replace(web.uuid + "/", CLONE + "/"),
    )
    assert label(web) in clone.xml
    for _time in "again":
        with pytest.raises(PacketFilterInUse, match=label(web)) as refused:
            web.instance().absent()
        assert refused.value.hint == hints.filter_in_use(label(web)) and not refused.value.retryable
        assert libvirt.domains == {CLONE: clone} and clone.isActive() and list(libvirt.filters) == [label(web)]
        assert web.record.phase == "deleting", "the next run goes on"
    clone.xml = re.sub('<filterref filter="[^"]*" */>', "", clone.xml)
    assert web.instance().absent() is True
    assert libvirt.filters == {} and libvirt.domains == {CLONE: clone} and web.record is None


def test_a_guest_that_does_not_start_leaves_no_filter(web, monkeypatch):
    def fails(*_):
        raise fake_libvirt.libvirtError(1, "no start")

    monkeypatch.setattr(fake_libvirt.FakeDomain, "createWithFlags", fails)
    with pytest.raises(BuildFailed, match="no start"):
        web.make()
    assert web.host.connection.filters == {} and web.record is None


LIBVIRTS = {
    "both": ("1", "1", [packet_filter.ADDRESSES, packet_filter.PORTS]),
    "bridged packets of IPv6 pass by": ("1", "0", [packet_filter.ADDRESSES]),
    "no br_netfilter": (None, None, [packet_filter.ADDRESSES]),
}


@pytest.mark.parametrize("case", LIBVIRTS)
def test_a_host_tells_what_it_can_filter(prepared, tmp_path, case):
    for table, value in zip(("iptables", "ip6tables"), LIBVIRTS[case]):
        if value:
            (tmp_path / table).write_text(value + "\n")
    assert packet_filter.possible(prepared.connection, str(tmp_path / "%s")) == LIBVIRTS[case][2]


@pytest.mark.parametrize(
    "can, security, lacks", [([], OPEN, "nwfilter"), ([packet_filter.ADDRESSES], secured(), "br_netfilter")]
)
def test_a_host_that_cannot_filter_what_is_asked_for_is_refused_before_anything_is_built(
    prepared, monkeypatch, can, security, lacks
):
    monkeypatch.setattr(packet_filter, "possible", lambda _connection: can)
    monkeypatch.setattr(network, "_is_bridge", lambda *_: True)
    with pytest.raises(NetworkNotFound, match=lacks):
        network.check(prepared.connection, [nic(security)])
    network.check(prepared.connection, [nic(None)])
