# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab's guest prints, read back."""

from __future__ import annotations

from guest_facts import events, guest_facts

BOOT = "SeaBIOS\r\nberth-guest verify result=none end\r\nberth-guest ready end\r\n"
FACTS = (
    "berth-guest facts host=web1 vcpus=2 mem_kib=94540 disk=1073741824 disks=vda:1073741824,vdb:374784 boots=1 "
    "nonce=ab12 seed=cidata marker=m key=ssh-ed25519_AAAA ip=10.0.0.9/24 mac=52:54:00:00:00:01 "
    "writer=on ack=7 verify=none up=5.62 seq=0 end\r\n"
)


def test_numbers_are_numbers_and_words_are_words():
    facts = guest_facts(BOOT + FACTS)
    assert (facts["vcpus"], facts["up"], facts["host"], facts["ip"]) == (2, 5.62, "web1", "10.0.0.9/24")
    assert facts["disks"] == {"vda": 1073741824, "vdb": 374784}
    assert facts["ready"] and not facts["poweroff"]


def test_a_line_that_was_cut_says_nothing():
    assert guest_facts(BOOT + FACTS.replace(" end", "")) == {}


def test_an_empty_value_does_not_spoil_the_line():
    assert events("berth-guest facts ip= mac=a end\n") == [("facts", {"ip": "", "mac": "a"})]


def test_the_highest_acknowledged_number_wins_over_the_last_facts():
    assert guest_facts(BOOT + FACTS + "berth-guest ack n=93 up=7 end\n")["ack"] == 93


def test_verdicts_are_kept_boot_by_boot():
    text = (
        BOOT
        + FACTS
        + "berth-guest poweroff end\nberth-guest verify result=ok:95 end\nberth-guest verify result=bad:90:96 end\n"
        + FACTS
    )
    facts = guest_facts(text)
    assert facts["verdicts"] == [
        {"result": "none"},
        {"result": "ok", "last": 95},
        {"result": "bad", "first_bad": 90, "last": 96},
    ]
    assert facts["verify"]["result"] == "bad"
    assert not facts["poweroff"]
