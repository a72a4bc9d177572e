# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps of a move do to the volumes of an instance: a part of the effects of moving_host.py."""

from __future__ import annotations

from . import disks, storage, transfer, volumes


class VolumeEffects:
    def _volumes(self, record):
        return volumes.Volumes(self.host.compute, self.host.identity, record)

    def tell_volumes(self, record):
        return self._volumes(record).tell(marked=not self.only_looks)

    def expect_volumes(self, record, reported):
        self._volumes(record).expect(reported)

    def reserve_volumes(self, record):
        self._volumes(record).reserve()

    def publish_volumes(self, record):
        """Publish the volumes that the source let go of: from now on there are no other copies."""
        if not storage.is_shared(record):
            transfer.close(record.uuid)
            storage.check_shared_as_claimed(self.pool_path(record), record)
            disks.publish_volumes(self.pool_path(record), record)

    def let_go_of_volumes(self, record):
        self._volumes(record).let_go()

    def own_volumes(self, record):
        self._volumes(record).own()

    def take_given_volumes(self, record):
        self._volumes(record).take_given()
