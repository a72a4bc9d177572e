# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cloud-init of a guest gets: its host name, user data, injected files, the password's hash, whether the root file system
grows; and its network-config.
"""

from __future__ import annotations

import base64
import binascii
import email
import json
import posixpath
import re
import zlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import input_hints
from .errors import BerthError, InvalidInput
from .guest_settings import TRUE_WORDS
from .identity import short_name
from .messages import Document
from .nics import Nic, by_version, dhcp_versions
from .schema import Fields, ListOf, OneOf, Secret, Text

MOST_FILES = 64
MOST_BYTES = 1 << 20
MODE = "0644"  # cloud-init's default
OWNER = "root:root"
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"


class _Path:
    """The absolute path of a file, written in one way only."""

    text = Text(longest=255)
    rule = "an absolute path of at most 255 characters without .., . and //, of a file"

    def check(self, value: Any, field: str) -> str:
        path = self.text.check(value, field)
        if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path or path == "/":
            raise InvalidInput(field, path, self.rule)
        if "\n" in path:
            raise InvalidInput(field, path, "a path of one line")
        return path


class _Content:
    """Text of any kind."""

    rule = "text; binary content is given in base64, with encoding base64"

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(field, value, self.rule)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInput(field, value, self.rule) from None
        return str(value)


class _Files:
    """A list of {path, content, encoding, mode, owner}; each path once."""

    files = ListOf(
        Fields(
            {
                "path": _Path(),
                "content": _Content(),
                "encoding": OneOf("text", "base64"),
                "mode": Text(r"0?[0-7]{3,4}\Z", "an octal number such as '0600'"),
                "owner": Text(r"%s(:%s)?\Z" % (_NAME, _NAME), "user, or user:group", longest=65),
            },
            defaults={"encoding": "text", "mode": MODE, "owner": OWNER},
        ),
        longest=MOST_FILES,
    )

    def check(self, value: Any, field: str) -> List[Document]:
        files = self.files.check(value, field)
        size, seen = 0, set()
        for at, file in enumerate(files):
            size += len(_bytes(file, "%s[%d].content" % (field, at)))
            if file["path"] in seen or any(file["path"].startswith(other["path"] + "/") for other in files):
                rule = "each path once, and none below another"
                raise InvalidInput("%s[%d].path" % (field, at), file["path"], rule)
            seen.add(file["path"])
        if size > MOST_BYTES:
            raise InvalidInput(field, None, "at most %d bytes in all files together, not %d" % (MOST_BYTES, size))
        return files


FILES = Secret(_Files(), shown=("path", "encoding", "mode", "owner"))


def write_files(files: List[Document]) -> List[Document]:
    """Return the files in cloud-init's write_files format; those of users other than root wait until users exist."""
    return [
        {
            "path": file["path"],
            "content": base64.b64encode(_bytes(file, "berth_files")).decode("ascii"),
            "encoding": "b64",
            "permissions": file["mode"],
            "owner": file["owner"] if ":" in file["owner"] else "%s:%s" % (file["owner"], file["owner"]),
            **({} if file["owner"].partition(":")[0] == "root" else {"defer": True}),
        }
        for file in files
    ]


def _bytes(file: Document, field: str) -> bytes:
    if file["encoding"] == "text":
        return str(file["content"]).encode("utf-8")
    try:
        return base64.b64decode("".join(file["content"].split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(field, None, "valid base64, as encoding says") from None


# User data: what cloud-init, Ignition, Talos or cloudbase-init of the guest reads, given plainly, in base64, or in
# base64 of gzip. It may hold secrets, so no error repeats it.
FIELD = "berth_user_data"
LONGEST = 65535
MOST_UNPACKED = 1 << 20  # bytes
CLOUD_INIT, IGNITION, TALOS, CLOUDBASE_INIT = "cloud-init", "Ignition", "Talos", "cloudbase-init"
_PATH = re.compile(r"[~.\w/-]+\.(cfg|conf|ign|json|sh|txt|yaml|yml)")
_GZIP = b"\x1f\x8b"
_BLANK = "\ufeff\r\n\t "
_MIME = ("Content-Type:", "MIME-Version:", "From ")
# Beginnings of text for a platform; base64 cannot begin like them.
_CLOUD_INIT = ("#cloud-", "#include", "#!", "#part-handler", "#upstart-job", "## template:", *_MIME)
# What a first line for cloud-init says after "#cloud-"; another word, or a space before it, is a comment to it.
_KINDS = ("config", "config-archive", "config-jsonp", "boothook")
_ALIKE = re.compile(r"#+[ \t]*cloud[-_ ]?\w[\w-]*", re.ASCII | re.IGNORECASE)
_CLOUDBASE_INIT = ("#ps1", "rem cmd", "<powershell>", "<script>")
_TALOS = re.compile(r"(?:version|apiVersion):[ \t]*[\"']?v1alpha1\b", re.ASCII)
_TALOS_PART = re.compile(r"(?:machine|cluster|kind):", re.ASCII)
_BUTANE = re.compile(r"variant:[ \t]*[\"']?[a-z]", re.ASCII)


class InstanceUserDataMalformed(BerthError):
    """User data that is neither text for the guest's platform nor base64 of it."""


class InstanceUserDataTooLarge(BerthError):
    """User data of more than 65535 bytes after base64 encoding, or of more than 1 MiB unpacked."""


def decode_user_data(value: Any) -> Optional[str]:
    """The plain text of user data; None stays None.

    Text that begins as that of a platform does (#cloud-config, #!, Content-Type: ..., Ignition's JSON) is plain. Anything else
    must be base64, which may be of gzip, as Terraform's cloudinit_config gives it. At most 65535 bytes in base64.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        hint = input_hints.user_data_is_text() if isinstance(value, dict) else None
        raise _malformed("it is not text", "text, plain or in base64; in YAML it begins after |", hint)
    text, packed = str(value), "".join(value.split())
    if kind(value) or value.lstrip(_BLANK).startswith("#"):
        _limit(len(base64.b64encode(value.encode("utf-8", "surrogatepass"))))
    else:
        _check_compiled(value)
        _check_header(value)
        _limit(len(packed))
        text = _decoded(packed)
    _check_compiled(text)
    _check_header(text)
    return text


def _decoded(packed: str) -> str:
    try:
        data = base64.b64decode(packed, validate=True)
        return (_unpacked(data) if data.startswith(_GZIP) else data).decode("utf-8")
    except (binascii.Error, ValueError, zlib.error):
        raise _malformed(
            "neither text for the guest's platform nor base64 of UTF-8 text or of gzip of it",
            "plain text begins with #cloud-config, #!, a MIME header, Ignition's JSON or Talos' version: v1alpha1; anything "
            "else must be valid base64",
            input_hints.content_of_file(packed) if _PATH.fullmatch(packed) else input_hints.cloud_config_first(),
        ) from None


def _unpacked(data: bytes) -> bytes:
    """gzip's content; ValueError if it is cut off."""
    stream = zlib.decompressobj(31)
    text = stream.decompress(data, MOST_UNPACKED + 1)
    if len(text) > MOST_UNPACKED:
        raise InstanceUserDataTooLarge(
            "%s: more than %d bytes unpacked" % (FIELD, MOST_UNPACKED),
            field=FIELD,
            rule="at most %d bytes unpacked" % MOST_UNPACKED,
            hint=input_hints.include_url(),
        )
    if not stream.eof:
        raise ValueError
    return text


def kind(text: Optional[str]) -> Optional[str]:
    """Whose user data a plain text is: CLOUD_INIT, IGNITION, TALOS, CLOUDBASE_INIT, or None if that cannot be seen."""
    text = (text or "").lstrip(_BLANK)
    if text.startswith(_CLOUD_INIT):
        return CLOUD_INIT
    if text.lower().startswith(_CLOUDBASE_INIT):
        return CLOUDBASE_INIT
    if text.startswith("{"):
        return IGNITION if _is_ignition(text) else None
    lines = text.splitlines()
    talos = any(map(_TALOS.match, lines)) and any(map(_TALOS_PART.match, lines))
    return TALOS if talos else None


def _is_ignition(text: str) -> bool:
    try:
        document = json.loads(text)
        return isinstance(document["ignition"]["version"], str)
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _check_compiled(text: str) -> None:
    """Refuse Butane, the YAML from which Ignition's JSON is made: no guest reads it."""
    lines = [line for line in text.lstrip(_BLANK).splitlines() if line.strip() and not line.startswith("#")]
    if kind(text) is None and any(map(_BUTANE.match, lines)) and any(line.startswith("version:") for line in lines):
        raise _malformed(
            "it is a Butane config, which no guest reads",
            "the Ignition JSON that is made of it",
            input_hints.compile_butane(),
        )


def _check_header(text: str) -> None:
    """Refuse what its platform would not see: JSON of nobody, and a header that does not come first."""
    if kind(text) is None and text.lstrip(_BLANK).startswith("{"):
        raise _malformed(
            "it is neither Ignition's JSON nor a cloud-config",
            'valid JSON with {"ignition": {"version": "3.x.y"}}; a cloud-config has #cloud-config in its first line',
            None,
        )
    first = _ALIKE.match(text.lstrip(_BLANK))
    if first and kind(text) in (None, CLOUD_INIT) and first[0] not in ["#cloud-" + each for each in _KINDS]:
        raise _malformed(
            "%s is only a comment to cloud-init" % first[0],
            "the first line is #cloud-config, without a space and with this spelling",
            None,
        )
    if kind(text) is None and any(line.startswith("#cloud-config") for line in text.splitlines()):
        raise _malformed(
            "#cloud-config is not in its first line",
            "cloud-init reads the first line",
            input_hints.cloud_config_first(),
        )


def _malformed(why: str, rule: str, hint: Optional[str]) -> InstanceUserDataMalformed:
    return InstanceUserDataMalformed("%s: %s" % (FIELD, why), field=FIELD, rule=rule, hint=hint)


def cloud_configs(text: str) -> List[str]:
    """Return the cloud-config texts of plain user data: the text itself, or the parts of a multi-part one."""
    text = text.lstrip(_BLANK)
    if text.startswith(_MIME):
        parts = [part.get_payload(decode=True) for part in email.message_from_string(text).walk()]
        return [config for part in parts if isinstance(part, bytes) for config in _configs(_text_of(part))]
    return _configs(text)


def _text_of(part: bytes) -> str:
    try:
        part = _unpacked(part) if part.startswith(_GZIP) else part
    except (ValueError, zlib.error):
        return ""
    return part.decode("utf-8", "replace")


def _configs(text: str) -> List[str]:
    lines = text.lstrip(_BLANK).splitlines()[:2]
    return [text] if any(line.startswith("#cloud-config") for line in lines) else []


def _limit(size: int) -> None:
    if size > LONGEST:
        raise InstanceUserDataTooLarge(
            "%s: %d bytes in base64" % (FIELD, size),
            field=FIELD,
            rule="at most %d bytes in base64" % LONGEST,
            hint=input_hints.include_url(),
        )


# What cloud-init gets besides the user data: injected files, the password's hash, whether the root file system grows.
#
# It goes to the guest as vendor data, which cloud-init keeps apart. A key in the user data replaces the same key in the
# vendor data, so a key that is visibly in both is refused.
AUTO, MANUAL = "auto", "manual"


class AutoDiskConfigDisabledByImage(BerthError):
    """berth_disk_config is auto, and the image's hw_auto_disk_config is disabled."""


def seed_of(
    name: str, values: Mapping[str, Any], user_data: Optional[str], image: Document, keys: Sequence[str]
) -> Document:
    """What goes only to the build, without the network: the guest's host name and the rest. ``cloud_config`` is one text: Ansible
    would mask a part of it, such as root, wherever the host's output has that word."""
    config = cloud_config(values, image, user_data)
    return {
        "hostname": short_name(name),
        "fqdn": name if "." in name else None,
        "ssh_keys": list(dict.fromkeys(keys)),
        "user_data": user_data,
        "metadata": values.get("berth_metadata", {}),
        "cloud_config": json.dumps(config) if config else None,
    }


def cloud_config(values: Mapping[str, Any], image: Document, user_data: Optional[str]) -> Document:
    """cloud-init's keys for what the instance's checked variables ask for; InvalidInput where the user data has them too."""
    parts: Dict[str, Document] = {}
    if values.get("berth_files"):
        parts["berth_files"] = {"write_files": write_files(values["berth_files"])}
    if values.get("berth_admin_password_hash"):
        password = values["berth_admin_password_hash"]
        parts["berth_admin_password_hash"] = {"user": {"hashed_passwd": password, "lock_passwd": False}}
    grow = _disk_config(values.get("berth_disk_config"), image)
    if grow:
        mode = {"mode": "auto" if grow == AUTO else "off"}
        parts["berth_disk_config"] = {"growpart": mode, "resize_rootfs": grow == AUTO}
    for variable, config in parts.items():
        _refuse_twice(variable, config, user_data)
        if values.get(variable) and kind(user_data) in (IGNITION, TALOS):
            rule = "left out: cloud-init does this, and the user data is for %s" % kind(user_data)
            raise InvalidInput(variable, "with such user data", rule)
    return {key: value for config in parts.values() for key, value in config.items()}


def _disk_config(asked: Optional[str], image: Document) -> Optional[str]:
    """auto, manual, or None: what the image does by itself."""
    properties = image.get("properties") or {}
    text = properties.get("hw_auto_disk_config", properties.get("auto_disk_config"))
    if text is None:
        return asked
    setting = str(text).lower()
    if setting == "disabled" and asked == AUTO:
        raise AutoDiskConfigDisabledByImage(
            "berth_disk_config: auto is not for image %s, whose hw_auto_disk_config is disabled" % image["name"],
            field="berth_disk_config",
            value=asked,
            rule="manual, or not given",
        )
    return asked or (AUTO if setting in TRUE_WORDS else MANUAL)


def _refuse_twice(variable: str, config: Document, user_data: Optional[str]) -> None:
    for key in _top_keys(user_data):
        if key in config:
            raise InvalidInput(
                "berth_user_data",
                "with the key %s" % key,
                "no %s together with %s: cloud-init would use only that of the user data" % (key, variable),
                hint=input_hints.in_one_place(variable, key),
            )


def _top_keys(user_data: Optional[str]) -> List[str]:
    """The keys of cloud-config in the user data, as far as they can be seen: not behind an #include."""
    key = re.compile(r"""^(?:\{\s*)?["']?([a-z_]+)["']?\s*:""", re.MULTILINE)
    return [name for text in cloud_configs(user_data or "") for name in key.findall(text)]


# cloud-init's network-config, for every renderer of cloud-init 19.4 and later.
#
# Up to 22.1 cloud-init takes the name in the document for that of the device, so each NIC gets one: eth0, eth1, ...
# Version 1 is the one whose default routes all renderers write: those of version 2 crash sysconfig, or become ::/64.
# Where no NIC has an address of its own it is version 2, as netplan gets name servers beside DHCP from that alone.
# Of a default route that DHCP gives to another NIC than that of the guest's default route, whose metric is at most 100.
OTHER_METRIC = 200
LONGEST_CONFIG = 65535  # bytes of a user's own


def network_config(nics: Optional[Sequence[Nic]]) -> Optional[Document]:
    """Return the document for the NICs of a request with all their addresses; None without NICs."""
    if not nics:
        return None
    if not any(nic["address"] for nic in nics):
        told = [at for at, nic in enumerate(nics) if nic.get("default_route")]
        first = [at for at, nic in enumerate(nics) if nic.get("default_route") is not False][:1]
        by_name = {"eth%d" % at: _ethernet(at, nic, at in (told or first)) for at, nic in enumerate(nics)}
        return {"version": 2, "ethernets": by_name}
    defaults = _default_routes(nics)
    config = [_physical(at, nic, defaults) for at, nic in enumerate(nics)]
    static = next(subnet for device in config for subnet in device["subnets"] if subnet["type"] == "static")
    # Renderers drop those of a subnet with DHCP, and a guest asks all its name servers, whichever NIC has them.
    servers = [server for nic in nics if not nic["address"] for server in nic["nameservers"]]
    if servers:
        static["dns_nameservers"] = list(dict.fromkeys([*static.get("dns_nameservers", []), *servers]))
    return {"version": 1, "config": config}


def _default_routes(nics: Sequence[Nic]) -> List[Tuple[int, int]]:
    """Return (NIC, IP version) of the gateways that are default routes: of each IP version those of NICs that say so, or else the first."""
    chosen = []
    for version in (4, 6):
        of_version = {at: by_version(nic)[version] for at, nic in enumerate(nics) if version in by_version(nic)}
        told = any(nic.get("default_route") and version in dhcp_versions(nic) for nic in nics)
        told = told or any(nics[at].get("default_route") for at in of_version)
        may = [at for at, pair in of_version.items() if pair[1] and nics[at].get("default_route") is not False]
        may = [at for at in may if nics[at].get("default_route")] if told else may[:1]
        chosen += [(at, version) for at in may]
    return chosen


def _physical(at: int, nic: Nic, defaults: Sequence[Tuple[int, int]]) -> Document:
    device: Document = {"type": "physical", "name": "eth%d" % at, "mac_address": nic["mac"]}
    if nic["mtu"]:
        device["mtu"] = nic["mtu"]
    subnets: List[Dict[str, Any]] = [{"type": "dhcp%d" % version} for version in dhcp_versions(nic)]
    fixed: List[Dict[str, Any]] = []
    for version, (address, gateway) in by_version(nic).items():
        fixed.append(
            {"type": "static", "address": address, **({"gateway": gateway} if (at, version) in defaults else {})}
        )
    if fixed and nic["nameservers"]:
        fixed[0]["dns_nameservers"] = list(nic["nameservers"])
    return {**device, "subnets": fixed + subnets}


def _ethernet(at: int, nic: Nic, is_default: bool) -> Document:
    ethernet: Document = {"match": {"macaddress": nic["mac"]}, "set-name": "eth%d" % at}
    if nic["mtu"]:
        ethernet["mtu"] = nic["mtu"]
    for version in dhcp_versions(nic):
        ethernet["dhcp%d" % version] = True
        if not is_default:
            ethernet["dhcp%d-overrides" % version] = {"route-metric": OTHER_METRIC}
    if nic["nameservers"]:
        ethernet["nameservers"] = {"addresses": list(nic["nameservers"])}
    return ethernet


class NetworkConfig:
    """A network-config of the user's own: what cloud-init of the guest's image reads."""

    rule = "a mapping with version: 1 and config, or version: 2, as cloud-init's network-config has it"

    def check(self, value: Any, field: str) -> Document:
        config = value.get("network", value) if isinstance(value, Mapping) else None
        if not isinstance(config, Mapping) or config.get("version") not in (1, 2):
            raise InvalidInput(field, value, self.rule)
        if config["version"] == 1 and not isinstance(config.get("config"), list):
            raise InvalidInput(field, value, self.rule)
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput(field, value, "texts, numbers, truth values, lists and mappings") from None
        if len(text) > LONGEST_CONFIG:
            raise InvalidInput(field, "%d bytes" % len(text), "at most %d bytes in JSON" % LONGEST_CONFIG)
        return dict(json.loads(text))
