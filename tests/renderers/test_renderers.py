# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network-config in the renderers of real releases of cloud-init: `make renderers`.

Debian's package is fetched with apt-get. Each directory .cache/cloud-init/releases/NAME that has a package cloudinit is a
release more: git clone --branch 20.4.1 https://github.com/canonical/cloud-init .cache/cloud-init/releases/20.4.1
"""

from __future__ import annotations

import json
import re
import subprocess
import venv
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.cloud_init import network_config

HERE, CACHE = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2] / ".cache/cloud-init"
RELEASES, PYTHON = CACHE / "releases", CACHE / "venv/bin/python"
NEEDS = ["pyyaml", "jinja2", "configobj", "jsonpatch", "jsonschema", "oauthlib", "requests", "six", "setuptools<81"]
KINDS = ("sysconfig", "eni", "networkd", "network_manager", "netplan")


def fetch():
    """Get Debian's cloud-init, and a Python that has what all releases import. Return the directories of the releases."""
    if not PYTHON.exists():
        venv.create(CACHE / "venv", with_pip=True)
        subprocess.run([PYTHON, "-m", "pip", "-q", "install", *NEEDS], check=True)
    debian = RELEASES / "debian"
    if not debian.exists():
        debian.mkdir(parents=True)
        subprocess.run(["apt-get", "-q", "download", "cloud-init"], cwd=CACHE, check=True)
        package = next(CACHE.glob("cloud-init_*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, debian], check=True)
    inside = [release / part for release in RELEASES.iterdir() for part in ("", "usr/lib/python3/dist-packages")]
    return sorted(path for path in inside if (path / "cloudinit").is_dir())


def nic(at, **parts):
    mac = "02:ab:cd:ef:00:0%d" % (at + 1)
    return {"mac": mac, "mtu": None, "address": None, "gateway": None, "nameservers": [], **parts}


V4 = {"address": "192.0.2.20/24", "gateway": "192.0.2.1"}
V6 = {"address": "2001:db8::20/64", "gateway": "2001:db8::1"}
# name -> the NICs, and what each renderer has to write: {renderer: [regular expression]}
CASES = {
    "addresses": (
        [
            nic(0, **V4, nameservers=["192.0.2.53"], dhcp="ipv6"),
            nic(1, mtu=1400, nameservers=["192.0.2.54"]),
            nic(2, **V6, nameservers=["2001:db8::53"]),
        ],
        {
            "sysconfig": [
                r"IPADDR=192\.0\.2\.20\n", r"\nGATEWAY=192\.0\.2\.1\n", r"DHCPV6C=yes", r"HWADDR=02:ab:cd:ef:00:01\n", r"MTU=1400\n",
                r"BOOTPROTO=dhcp\nDEVICE=eth1\n", r"IPV6ADDR=2001:db8::20/64\n", r"IPV6_DEFAULTGW=2001:db8::1\n", r"DNS2=192\.0\.2\.54",
            ],
            "eni": [
                r"iface eth0 inet static\n +address 192\.0\.2\.20/24\n", r" gateway 192\.0\.2\.1\n", r"iface eth0 inet6 dhcp\n",
                r"iface eth1 inet dhcp\n", r" mtu 1400\n", r"iface eth2 inet6 static\n +address 2001:db8::20/64\n",
                r" gateway 2001:db8::1\n", r"dns-nameservers 192\.0\.2\.53 192\.0\.2\.54\n",
            ],
            "networkd": [
                r"Address=192\.0\.2\.20/24", r"Gateway=192\.0\.2\.1\n", r"DHCP=ipv6", r"MTUBytes=1400", r"Name=eth1\n", r"DHCP=ipv4",
                r"Address=2001:db8::20/64", r"Gateway=2001:db8::1\n", r"DNS=192\.0\.2\.53 192\.0\.2\.54",
            ],
            "network_manager": [
                r"address1=192\.0\.2\.20/24\n", r"gateway=192\.0\.2\.1\n", r"mtu=1400", r"mac-address=02:AB:CD:EF:00:02",
                r"address1=2001:db8::20/64\n", r"gateway=2001:db8::1\n", r"dns=192\.0\.2\.53;192\.0\.2\.54;",
            ],
            "netplan": [
                r"- 192\.0\.2\.20/24\n", r"(gateway4|via): 192\.0\.2\.1\n", r"dhcp6: true", r"mtu: 1400", r"dhcp4: true",
                r"macaddress: 02:ab:cd:ef:00:02", r"set-name: eth1", r"- 2001:db8::20/64\n", r"(gateway6|via): 2001:db8::1\n",
                r"- 192\.0\.2\.53\n +- 192\.0\.2\.54\n",
            ],
        },
    ),
    "two gateways": (
        [nic(0, **V4), nic(1, address="198.51.100.2/24", gateway="198.51.100.1")],
        {kind: [r"192\.0\.2\.1\n", r"198\.51\.100\.2\b", r"\A(?!.*198\.51\.100\.1\b)"] for kind in KINDS},
    ),
    "gateways outside": (
        [nic(0, **{**V4, "address": "192.0.2.20/32"}), nic(1, **{**V6, "gateway": "fe80::1"})],
        {
            "sysconfig": [r"\nGATEWAY=192\.0\.2\.1\n", r"NETMASK=255\.255\.255\.255\n", r"IPV6_DEFAULTGW=fe80::1\n"],
            "eni": [r"address 192\.0\.2\.20/32\n", r" gateway 192\.0\.2\.1\n", r" gateway fe80::1\n"],
            "networkd": [r"Gateway=192\.0\.2\.1\n", r"Gateway=fe80::1\n"],
            "network_manager": [r"gateway=192\.0\.2\.1\n", r"gateway=fe80::1\n"],
            "netplan": [r"(gateway4|via): 192\.0\.2\.1\n", r"(gateway6|via): fe80::1\n"],
        },
    ),
    "both versions": (
        [nic(0, **V4, address6=V6["address"], gateway6=V6["gateway"], nameservers=["192.0.2.53"])],
        {
            "sysconfig": [r"IPADDR=192\.0\.2\.20\n", r"IPV6ADDR=2001:db8::20/64\n", r"IPV6_DEFAULTGW=2001:db8::1\n"],
            "eni": [r"iface eth0 inet static\n +address 192\.0\.2\.20/24\n", r"iface eth0 inet6 static\n +address 2001:db8::20/64\n"],
            "networkd": [r"Address=192\.0\.2\.20/24", r"Address=2001:db8::20/64", r"Gateway=2001:db8::1"],
            "network_manager": [r"address1=192\.0\.2\.20/24\n", r"address1=2001:db8::20/64\n", r"gateway=2001:db8::1\n"],
            "netplan": [r"- 192\.0\.2\.20/24\n", r"- 2001:db8::20/64\n", r"(gateway6|via): 2001:db8::1\n"],
        },
    ),
    "DHCP": (
        [nic(0, dhcp="both", nameservers=["192.0.2.53"]), nic(1, mtu=1400)],
        {
            "sysconfig": [r"BOOTPROTO=dhcp\nDEVICE=eth0\nDHCPV6C=yes", r"DEVICE=eth1\n", r"METRIC=200", r"MTU=1400"],
            "eni": [r"iface eth0 inet dhcp\n", r"iface eth0 inet6 dhcp\n", r"iface eth1 inet dhcp\n +metric 200\n +mtu 1400"],
            "networkd": [r"DHCP=(yes|ipv4)", r"Name=eth1\n", r"DNS=192\.0\.2\.53"],
            "network_manager": [r"mac-address=02:AB:CD:EF:00:01", r"mtu=1400", r"method=auto"],
            "netplan": [r"dhcp4: true", r"dhcp6: true", r"set-name: eth0", r"route-metric: 200", r"- 192\.0\.2\.53\n"],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", fetch(), ids=lambda path: path.relative_to(RELEASES).parts[0])
@pytest.mark.parametrize("case", CASES)
def test_every_renderer_writes_what_the_nics_have(case, release, kind, tmp_path):
    nics, expected = CASES[case]
    config, out = tmp_path / "network-config", tmp_path / "out"
    config.write_text(json.dumps(network_config(nics)))
    out.mkdir()
    command = [PYTHON, HERE / "render.py", release, kind, config, out]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 77:
        pytest.skip("this release has no such renderer")
    assert ended.returncode == 0, ended.stderr
    written = "".join("\n%s" % path.read_text() for path in sorted(out.rglob("*")) if path.is_file())
    missing = [pattern for pattern in expected[kind] if not re.search(pattern, written, re.DOTALL)]
    assert not missing and "::/64" not in written and len(re.findall(r"default", written)) <= 2, (missing, written)
