# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import check_confinement


@pytest.mark.parametrize("models, none_ok", [(["apparmor", "dac"], False), (["selinux"], False), (["dac"], True)])
def test_a_confined_qemu_is_accepted_and_an_open_one_where_it_is_meant_so(models, none_ok):
    check_confinement(models, none_ok)


@pytest.mark.parametrize("models", [[], ["dac"], ["none"]])
def test_a_qemu_that_nothing_confines_is_refused_with_what_to_do(models):
    with pytest.raises(HostNotPrepared) as refused:
        check_confinement(models, False)
    assert "berth_host_security_driver_none_ok" in str(refused.value.to_result()["msg"])
