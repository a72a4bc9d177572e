# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest


class Ended(Exception):
    """The module has ended; args: its result."""


@pytest.fixture
def ended(monkeypatch):
    """ended(module, check_mode, options) -> the result of main() of a module (a Python one) with these options."""

    def ended(module, check_mode, options):
        class Module:
            def __init__(self, argument_spec, supports_check_mode):
                self.params = {**{name: option["default"] for name, option in argument_spec.items()}, **options}
                self.check_mode = check_mode
                assert supports_check_mode

            def exit_json(self, **result):
                raise Ended(result)

            def fail_json(self, **result):
                raise Ended({"failed": True, **result})

        monkeypatch.setattr(module, "AnsibleModule", Module)
        with pytest.raises(Ended) as raised:
            module.main()
        return raised.value.args[0]

    return ended
