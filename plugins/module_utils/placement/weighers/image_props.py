# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ImagePropertiesWeigher."""

from __future__ import annotations

from collections import Counter

from ..base import Weigher, parse_options


class ImagePropertiesWeigher(Weigher):
    """Counts how often the image's properties occur among the instances of a host; a negative multiplier spreads them.

    image_props_weight_setting ["os_distro=2", ...] weighs properties; those that it does not name do not count.
    Normalised from the smallest to the largest.
    Options: image_props_weight_multiplier (0.0: off, whatever aggregates say), image_props_weight_setting ([]: every
    property counts 1). Aggregate metadata: image_props_weight_multiplier.

    Source: nova.scheduler.weights.image_props.ImagePropertiesWeigher.
    """

    multiplier_option = "image_props_weight_multiplier"

    def __init__(self, options):
        super().__init__(options)
        self.setting = dict(parse_options(options["image_props_weight_setting"]))

    def raw(self, host_state, spec):
        if self.configured() == 0.0:
            return 0.0
        there = Counter(
            (name, str(value))
            for uuid in list(host_state.instances)
            for name, value in host_state.image_props_of(uuid).items()
        )
        total = 0.0
        for name, value in spec.image_props.items():
            total += (self.setting.get(name, 0.0) if self.setting else 1.0) * there[(name, str(value))]
        return total
