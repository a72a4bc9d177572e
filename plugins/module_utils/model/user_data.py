# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User data: cloud-init text, given plainly or in base64. It may hold secrets, so no error repeats it."""

from __future__ import annotations

import base64
import binascii
import email
from typing import Any, List, Optional

from . import input_hints
from .errors import BerthError

FIELD = "berth_user_data"
LONGEST = 65535
# cloud-init recognises a text by these beginnings; base64 cannot begin like this.
_PLAIN = ("#", "Content-Type:", "MIME-Version:", "From ")


class InstanceUserDataMalformed(BerthError):
    """User data that is neither cloud-init text nor base64 of UTF-8 text."""


class InstanceUserDataTooLarge(BerthError):
    """User data of more than 65535 bytes after base64 encoding."""


def decode_user_data(value: Any) -> Optional[str]:
    """The plain text of user data; None stays None.

    Text that begins as cloud-init text does (#cloud-config, #!, Content-Type: ...) is plain. Anything else must be
    base64. At most 65535 bytes in base64, that is 49149 bytes of text.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        rule = "text, plain or in base64; in YAML it begins after |"
        raise InstanceUserDataMalformed("%s: it is not text" % FIELD, field=FIELD, rule=rule)
    if value.lstrip("\ufeff\r\n\t ").startswith(_PLAIN):
        _limit(len(base64.b64encode(value.encode("utf-8", "surrogatepass"))))
        return str(value)
    packed = "".join(value.split())
    _limit(len(packed))
    try:
        return base64.b64decode(packed, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InstanceUserDataMalformed(
            "%s: neither cloud-init text nor base64 of UTF-8 text" % FIELD,
            field=FIELD,
            rule="plain text begins with #cloud-config, #! or a MIME header; anything else must be valid base64",
            hint=input_hints.cloud_config_first(),
        ) from None


def cloud_configs(text: str) -> List[str]:
    """Return the cloud-config texts of plain user data: the text itself, or the parts of a multi-part one."""
    text = text.lstrip("\ufeff\r\n\t ")
    if text.startswith(("Content-Type:", "MIME-Version:", "From ")):
        parts = [part.get_payload(decode=True) for part in email.message_from_string(text).walk()]
        return [
            config for part in parts if isinstance(part, bytes) for config in _configs(part.decode("utf-8", "replace"))
        ]
    return _configs(text)


def _configs(text: str) -> List[str]:
    lines = text.lstrip("\ufeff\r\n\t ").splitlines()[:2]
    return [text] if any(line.startswith("#cloud-config") for line in lines) else []


def _limit(size: int) -> None:
    if size > LONGEST:
        raise InstanceUserDataTooLarge(
            "%s: %d bytes in base64" % (FIELD, size),
            field=FIELD,
            rule="at most %d bytes in base64" % LONGEST,
            hint=input_hints.include_url(),
        )
