# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from a host is one printable line without template marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.model.safe_text import (
    clean,
    clean_all,
    is_safe,
    visible,
    visible_all,
)


@pytest.mark.parametrize("text", ["", "web 1", "{a}", "} }", "磁盘", "a" * 1024])
def test_plain_text_is_safe(text):
    assert is_safe(text)


@pytest.mark.parametrize(
    "text", ["{{ x }}", "{% if %}", "{# x", "a\n", "\x00", "\x1b[2J", "\u202eabc", "\u2028", "\ud800", "a" * 1025]
)
def test_marks_control_and_bidi_characters_and_great_length_are_not_safe(text):
    assert not is_safe(text)


@given(st.text(st.characters() | st.sampled_from("{%#\x00")))
def test_cleaned_text_is_safe_and_cleaning_it_again_changes_nothing(text):
    assert is_safe(clean(text))
    assert clean(clean(text)) == clean(text)


@given(st.text(max_size=100))
def test_safe_text_stays_as_it_is(text):
    if is_safe(text):
        assert clean(text) == text


def test_all_texts_of_plain_data_are_cleaned():
    assert clean_all({"{{a": ["\x00", 1, None, ("b",)]}) == {"?{a": ["?", 1, None, ["b"]]}


@given(st.text())
def test_visible_text_is_one_printable_line_of_the_same_length(text):
    assert visible(text).isprintable() and len(visible(text)) == len(text)


def test_what_is_shown_keeps_its_template_marks_and_loses_what_a_terminal_acts_upon():
    """A person's own input is quoted as it was; nothing renders what is shown."""
    given_text = {"{{ a }}": ["\x1b[2J", "\x9b2J", "a\nb", "\u202e", 1, None]}
    assert visible_all(given_text) == {"{{ a }}": ["?[2J", "?2J", "a?b", "?", 1, None]}
