# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User data: what cloud-init, Ignition, Talos or cloudbase-init of the guest reads, given plainly, in base64, or in base64 of
gzip. It may hold secrets, so no error repeats it."""

from __future__ import annotations

import base64
import binascii
import email
import json
import re
import zlib
from typing import Any, List, Optional

from . import input_hints
from .errors import BerthError

FIELD = "berth_user_data"
LONGEST = 65535
MOST_UNPACKED = 1 << 20  # bytes
CLOUD_INIT, IGNITION, TALOS, CLOUDBASE_INIT = "cloud-init", "Ignition", "Talos", "cloudbase-init"
_GZIP = b"\x1f\x8b"
_BLANK = "\ufeff\r\n\t "
_MIME = ("Content-Type:", "MIME-Version:", "From ")
# Beginnings of text for a platform; base64 cannot begin like them.
_CLOUD_INIT = ("#cloud-", "#include", "#!", "#part-handler", "#upstart-job", "## template:", *_MIME)
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
            input_hints.cloud_config_first(),
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
