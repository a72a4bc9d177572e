# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about a rescue: see hints.py."""

from __future__ import annotations


def unrescue_first(name: str) -> str:
    """The instance is rescued from another image."""
    return "berth.kvm.unrescue --limit %s ends that; then run the same again" % name


def rescued_and_off(name: str) -> str:
    """The guest of a rescued instance was shut down from inside."""
    return (
        "berth.kvm.unrescue --limit %s boots it from its own disk, and berth.kvm.rescue with the same image from that again"
        % name
    )


def go_back() -> str:
    """A run of create found a rescued instance, and left it so."""
    return "run berth.kvm.unrescue when its own disk boots again"


def name_rescue_image() -> str:
    """No image was named to boot from."""
    return "Add -e berth_rescue_image=NAME, an image of berth_images that boots by itself"
