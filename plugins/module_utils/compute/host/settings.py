# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of this host, /etc/berth/host.json: what nova.conf is to nova-compute."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Optional, Tuple

from ...model import host_hints
from ...model.errors import BerthError, InvalidInput
from ...model.host_settings import CHECKS, VARIABLE, HostSettings, Ratio
from ...model.schema import Check, Flag, Whole
from ...model.unknown_names import did_you_mean
from ..errors import HostIdentityChanged, HostNotPrepared

PATH = "/etc/berth/host.json"
MAX_BYTES = 1 << 20
NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?\Z", re.ASCII)
TRUE, FALSE = ("true", "yes", "on", "t", "y", "1"), ("false", "no", "off", "f", "n", "0")  # as Ansible reads text


class SettingsInvalid(InvalidInput):
    """The settings of the host break a rule. Nothing was changed; another host may work.

    ``newer``: a later version wrote them."""

    retryable = True
    newer = False

    @classmethod
    def of(cls, error: InvalidInput) -> SettingsInvalid:
        """Return the same error, as one of the settings."""
        new = cls(error.field or "", None, error.rule, error.hint)
        new.message, new.value = error.message, error.value
        new.also = [cls.of(other) for other in error.also]
        return new


class SettingsUnreadable(BerthError):
    """The settings of the host cannot be read, or are not a JSON object."""

    retryable = True


def check_uuid(settings: HostSettings, found: Optional[str]) -> None:
    """Raise if the uuid of the settings differs from ``found``, libvirt's present host uuid."""
    if settings.uuid and settings.uuid != found:
        raise HostIdentityChanged(
            "this host was prepared as %s and is now %s" % (settings.uuid, found),
            field="uuid",
            rule="libvirt's host uuid stays as it was at preparation",
            hint=host_hints.uuid_changed(PATH, settings.uuid),
        )


def _of_text(check: Check, value: Any) -> Any:
    """Return the truth value or number that a text says, as -e NAME=VALUE and a survey of AWX give it; else the value."""
    if isinstance(value, str) and isinstance(check, Flag):
        return {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}.get(value.lower(), value)
    if isinstance(value, str) and isinstance(check, (Ratio, Whole)) and NUMBER.match(value):
        return float(value) if "." in value else int(value)
    return value


def parse(data: Any, from_file: bool = False) -> HostSettings:
    """Return checked settings from the object in the file. Every error names its field. Fields may be missing.

    ``from_file``: a run wrote them, so an unknown one is of a newer version."""
    if not isinstance(data, dict):
        raise SettingsUnreadable("the host settings are not a JSON object")
    values = {"prepared": True}
    for name, value in data.items():
        if name not in CHECKS:
            variable = VARIABLE + str(name)[:64]
            hint = did_you_mean(variable, [VARIABLE + known for known in CHECKS])
            error = SettingsInvalid(variable, value, "no such setting", hint=hint)
            raise _of_newer(error) if from_file else error
        try:
            value = value if from_file or name == "schema" else _of_text(CHECKS[name], value)
            checked = CHECKS[name].check(value, VARIABLE + name)
        except InvalidInput as fault:
            error = SettingsInvalid.of(fault)
            raise _of_newer(error) if name == "schema" else error
        values[name] = tuple(checked) if isinstance(checked, list) else checked
    settings = HostSettings(**values)
    both = settings.dedicated_cpus() & settings.shared_cpus()
    if both:
        raise SettingsInvalid(
            VARIABLE + "cpu_shared_set",
            settings.cpu_shared_set,
            "CPU %d is in cpu_dedicated_set too" % min(both),
        )
    _check_one_type(settings.enabled_mdev_types)
    return settings


def _of_newer(error: SettingsInvalid) -> SettingsInvalid:
    error.newer, error.hint = True, host_hints.newer_version()
    return error


def _check_one_type(entries: Tuple[Dict[str, Any], ...]) -> None:
    """Check that a GPU offers one type only, as in Nova."""
    parents = [parent for entry in entries for parent in entry.get("parents", ("all other GPUs",))]
    twice = [parent for parent in parents if parents.count(parent) > 1]
    if twice:
        rule = "one type for each GPU, %s has two: name the GPUs of each type as its parents" % twice[0]
        raise SettingsInvalid(VARIABLE + "enabled_mdev_types", list(entries), rule)


def no_member(name: str) -> HostNotPrepared:
    """Return the error of a host without settings that is used as a member of the fleet."""
    return HostNotPrepared(
        "the host %s is not prepared: it never was, or berth.kvm.remove_host took it out of the fleet" % name,
        hint=host_hints.prepare_host(name),
    )


def load(path=PATH) -> HostSettings:
    """Return the settings in ``path``; without a file, the defaults with ``prepared`` false."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return HostSettings()
    except OSError as error:
        hint = host_hints.run_as_root() if isinstance(error, PermissionError) else None
        raise SettingsUnreadable("%s: %s" % (path, error.strerror), path=path, hint=hint)
    try:
        if len(text) > MAX_BYTES:
            raise ValueError("more than %d bytes" % MAX_BYTES)
        data = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        hint = host_hints.write_settings_anew(path)
        raise SettingsUnreadable("%s is no JSON: %s" % (path, error), path=path, hint=hint)
    try:
        return parse(data, from_file=True)
    except (SettingsInvalid, SettingsUnreadable) as fault:
        if not (isinstance(fault, SettingsInvalid) and fault.newer):
            fault.hint = host_hints.write_settings_anew(path)  # a corrected variable alone would not help
        raise
