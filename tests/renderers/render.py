# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release of cloud-init makes of a network-config, without a guest: render.py SOURCE RENDERER CONFIG OUT

SOURCE has the release's package cloudinit. The files of the guest are written below OUT. Ends with status 77 if the release
has no such renderer.
"""

import contextlib
import json
import sys

source, kind, config, out = sys.argv[1:5]
sys.path.insert(0, source)
NETPLAN = {"netplan_path": "etc/netplan/50.yaml", "postcmds": False}
ENI = {"eni_path": "etc/network/interfaces", "netrules_path": "etc/udev/rules.d/70.rules"}

from cloudinit import net, util  # noqa: E402
from cloudinit.net import network_state  # noqa: E402

# As the kernel names them once cloud-init has renamed them, which it does first.
NAMES = {"02:ab:cd:ef:00:0%d" % (at + 1): "eth%d" % at for at in range(3)}
net.get_interfaces_by_mac = network_state.get_interfaces_by_mac = lambda *_args, **_kinds: NAMES
network_state.find_interface_name_from_mac = NAMES.get
util.chownbyname = lambda *_args, **_kinds: None


def renderer():
    if kind == "sysconfig":
        from cloudinit.net import sysconfig

        known = {}
        with contextlib.suppress(ImportError, AttributeError):
            from cloudinit.distros import rhel

            known = rhel.Distro.renderer_configs.get("sysconfig") or {}
        return sysconfig.Renderer(known)
    module = __import__("cloudinit.net." + kind, fromlist=["Renderer"])
    return module.Renderer({"eni": ENI, "netplan": NETPLAN}.get(kind, {}))


with open(config, encoding="utf-8") as file:
    state = network_state.parse_net_config_data(json.load(file))
try:
    chosen = renderer()
except ImportError:
    sys.exit(77)
try:
    chosen.render_network_state(state, target=out)
except TypeError:  # before 20.1
    chosen.render_network_state(state, templates=None, target=out)
