# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables with the prefix berth_ exist, and which options the roles have. An unknown one is probably misspelled,
so the run does not begin."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ansible.errors import AnsibleError
from ansible.module_utils.common.validation import check_type_bool, check_type_float, check_type_int
from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor import fleet_events, watching
from ..module_utils.conductor.dynamic_inventory import ERROR, PUBLISHED
from ..module_utils.conductor.errors import UnknownVariable
from ..module_utils.conductor.procedures.backup_host import no_host
from ..module_utils.model import fleet_hints, host_settings, input_hints, snapshots
from ..module_utils.model.errors import BerthError, InvalidInput, joined
from ..module_utils.model.schema import Check, Flag, ListOf, OneOf, Text, Whole
from ..module_utils.model.unknown_names import meant, nearest
from ..module_utils.model.updates import DISCARDS
from ..module_utils.placement.weighing import MOST_SEED
from . import (
    berth_where_hosts,
    fleet_options,
    host_limits,
    login,
    misplaced,
    move_options,
    receipts,
    registry_access,
)
from .inventory_variables import CATALOG, INSTANCE, ITS_HOST, raw_vars, variables
from .misplaced import ROLE, listed, warn_of_misplaced
from .move_options import Option, Switch
from .plain import number, plain
from .screen import warn
from .selection_patterns import NAMES, PATTERNS, check_names, check_patterns
from .set_by_the_run import check_set_by_the_run
from .unread_options import WISHES, check_unread, meant_by, runs_ours
from .whose_variables import is_rendered, value_of

OWN = "berth_own_variables"
# Settings of a KVM host; the role kvm_host writes all but the first two to it, as its argument specification says.
HOST = (
    "berth_host_timeout",
    "berth_host_cell",
    *host_settings.VARIABLES,
)


class Converted:
    """What the argument specification of the role kvm_host takes, null for the default, and then ``item``."""

    def __init__(self, convert: Callable[[Any], Any], item: Check) -> None:
        self.convert, self.item, self.rule = convert, item, getattr(item, "rule", "true or false")

    def check(self, value: Any, field: str) -> None:
        if value is None:
            return
        try:
            converted = self.convert(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(field, value, self.rule) from None
        self.item.check(converted, field)


TYPES: Dict[type, Callable[[Any], Any]] = {
    host_settings.Ratio: check_type_float,
    Whole: check_type_int,
    Flag: check_type_bool,
}


class Number(Whole):
    """A number, also as text from -e and a survey."""

    def check(self, value: Any, field: str) -> int:
        return super().check(number(value), field)


class Answer(Number):
    """A number, or an empty text for the default."""

    def check(self, value: Any, field: str) -> int:
        return 0 if value == "" else super().check(value, field)


class Name(Text):
    """The name of a host or a file; an empty value means none."""

    def check(self, value: Any, field: str) -> str:
        return super().check(value or "", field)


class Since:
    """A time that is over; empty for the default."""

    rule = fleet_events.RULE

    def check(self, value: Any, field: str) -> None:
        if value not in ("", None):
            fleet_events.seconds_since(value, time.time())


NAME = Name(empty=True)
# These choose the instances and hosts of a run, and how it works. A mistake in one that has a check is reported before
# anything is changed; the others are checked where they are used.
RUN: Dict[str, Any] = {
    "berth_adopt_on": NAME,
    "berth_all": Switch(),
    "berth_allow_resize_to_same_host": Switch(),
    "berth_approved": None,
    "berth_assertions": None,
    "berth_backup": NAME,
    "berth_backup_chain": Option(Whole(1, 1000)),
    "berth_backup_deep": Switch(),
    "berth_backup_full": Switch(),
    "berth_backup_host": NAME,
    "berth_backup_keep": Option(Whole(1, 10000)),
    "berth_backup_keep_days": Option(Whole(1, 10000)),
    "berth_backup_minutes": Option(Whole(1, 10000)),
    "berth_backup_of": NAME,
    "berth_backup_to": Text(r"/.*[^/]\Z", "the absolute path of a directory", longest=1000),
    "berth_boot_command": None,
    "berth_boot_timeout": Option(Whole(1, 86400, "seconds")),
    "berth_bring_home": Switch(),
    "berth_clone_of": NAME,
    "berth_confirm_crashed": Switch(),
    "berth_console_lines": Option(Whole(1, 500)),
    "berth_count": None,
    "berth_delete_all": Switch(),
    "berth_delete_changed_disks": Switch(),
    "berth_disks_of": None,
    "berth_evacuate_from_backup": Switch(),
    "berth_fence": None,
    "berth_fix": Switch(),
    "berth_hosts_gone": None,
    "berth_hosts_like": None,
    "berth_image_to": Name(r"/.*[^/]\Z", "the absolute path of a directory", empty=True, longest=1000),
    "berth_instances": None,
    "berth_junit": None,
    "berth_keep_on": NAME,
    "berth_keep_on_confirmed": Switch(),
    "berth_kvm_hosts": None,
    "berth_leave_registry": Switch(),
    "berth_lock_reason": Text(longest=200, empty=True),
    "berth_lock_timeout": Number(0, host_limits.SHUTDOWN, "seconds"),
    "berth_locked": None,
    "berth_lost_hosts": None,
    "berth_may_fail": Switch(),
    "berth_mend": Switch(),
    "berth_metrics": None,
    "berth_min_count": None,
    "berth_name": None,
    "berth_new_image": NAME,
    "berth_new_name": NAME,
    OWN: None,
    "berth_plan": None,
    "berth_reboot": Option(OneOf("soft", "hard")),
    "berth_rebuild_discards": NAME,
    "berth_rebuild_lost": None,
    "berth_recover_on": NAME,
    "berth_remove_host": NAME,
    "berth_receipt": None,
    receipts.DIRECTORY: None,
    **{name: Option(rule) for name, rule in receipts.NUMBERS.items()},
    **move_options.CHECKED,
    **fleet_options.CHECKED,
    registry_access.VARIABLE: registry_access.WHERE,
    "berth_registry_address": None,
    "berth_registry_backup_directory": None,
    "berth_registry_backups": Number(1, 10000),
    "berth_registry_packages": Switch(),
    "berth_registry_quota_gb": Number(1, 64, "GiB"),
    "berth_registry_snapshot": None,
    "berth_registry_upgrade": Switch(),
    "berth_report": None,
    "berth_report_page": None,
    "berth_rescue_image": NAME,
    "berth_restore_discards": NAME,
    "berth_revert_volumes": Switch(),
    receipts.SEED: Number(0, MOST_SEED),
    "berth_set_aside_on": NAME,
    "berth_since": Since(),
    "berth_snapshot": Name("(%s)?\\Z" % snapshots.NAME, snapshots.NAME_RULE, snapshots.LONGEST_NAME, empty=True),
    "berth_snapshot_memory": Switch(),
    "berth_strict_uniqueness": Switch(),
    DISCARDS: None,
    "berth_volume": None,
    "berth_watch_policy": watching.POLICY,
    "berth_where": None,
    "berth_where_hosts": None,
    "berth_without_majority": Switch(),
}
# Names before 1.0, which 2.0 will not know: old -> new.
RENAMED = {
    **move_options.RENAMED,
    **misplaced.RENAMED,
    "create_timeout": "berth_lock_timeout",
    "delete_changed_disks": "berth_delete_changed_disks",
    "berth_delete_all": "berth_all",
}
CHECKED = {
    **{old: move_options.CHECKED[new] for old, new in move_options.RENAMED.items()},
    **{name: check for name, check in RUN.items() if check},
    "berth_shutdown_timeout": Answer(0, host_limits.SHUTDOWN, "seconds"),
    "berth_host_timeout": Number(1, host_limits.SHUTDOWN, "seconds"),
    **{
        name: Converted(TYPES[type(check)], check)
        for name, check in host_settings.VARIABLES.items()
        if type(check) in TYPES
    },
    "berth_host_certificate_days": Number(1, 3650, "days"),
    **dict.fromkeys(
        (
            "berth_host_accept_state_directory",
            "berth_host_certificates",
            "berth_host_forget_failed_builds",
            "berth_host_packages",
            "berth_host_remove_unused_images",
        ),
        Converted(check_type_bool, Flag()),
    ),
}
CHECKED.update({old: CHECKED[new] for old, new in misplaced.RENAMED.items() if new in CHECKED})
KNOWN = frozenset((*CATALOG, *INSTANCE, *RUN, *HOST, *ROLE, *PUBLISHED, ERROR))
SETTABLE = KNOWN - ({*PUBLISHED, ERROR} - {*INSTANCE})
PREFIX = "berth_"
OF_HOSTS = (*HOST, *ROLE, *misplaced.RENAMED)
OF_INSTANCES = frozenset(INSTANCE) - {"berth_flavor", "berth_project", "berth_state", "berth_uuid"}
OURS = re.compile("berth[_-]", re.IGNORECASE)
OPTIONS = frozenset((*move_options.RENAMED, *misplaced.RENAMED))
OF_ROLE = re.compile("(%s)_(.+)" % "|".join((*move_options.OF_ROLES, "kvm_host")))
ALIKE = 0.5  # of names with a first word in common
MISSPELLED = 0.87  # by a letter or two; kvm_host_data_directory is somebody's own
# What other tools call what is like none of our names. Without berth_ it may well be somebody's own.
A_HOST = "berth_target_host, or berth_kvm_host of drain and return"
ITS_NAME = "its name in the inventory, which is the host name of its guest"
KEEPING = "berth.kvm.shelve, or berth.kvm.backup before: berth.kvm.delete keeps no disks"
MEANT = {
    ITS_NAME: ("fqdn", "hostname"),
    "berth_failures": ("hosts_fail", "hosts_lost"),
    "berth_hosts_gone": ("without_hosts", "hosts_down"),
    A_HOST: ("dest_host", "destination", "host", "node", "target", "target_node"),
    "berth_availability_zone": ("az", "zone"),
    KEEPING: ("keep_disk", "keep_disks", "keep_volumes", "preserve_disks"),
    "berth_max_pause": ("downtime", "max_downtime"),
    "berth_placement, as its max_attempts": ("max_attempts",),
    "berth_backup_to": ("backup_dir", "backup_directory", "backup_path"),
    "berth_disks": ("disk", "disk_gb", "disk_size"),
    "berth_flavors": ("flavor_defined", "flavors_defined"),
    "berth_images": ("image_defined", "images_defined"),
    "berth_flavor": ("cores", "cpu", "cpus", "memory", "memory_mb", "num_cpus", "ram", "vcpu", "vcpus"),
    "berth_image": ("template",),
    "berth_name": ("vm", "vm_name", "vmid"),
    "berth_networks": ("address", "bridge", "ip", "ip_address", "mac", "mac_address", "nic", "nics", "vlan"),
    "berth_networks_defined": ("dns", "gateway", "nameservers", "subnet"),
    "berth_pool": ("datastore", "storage"),
    "berth_migration_timeout_action=force_complete, as there is no post-copy": (
        "permit_post_copy",
        "post_copy",
        "postcopy",
    ),
    "berth_key_names": ("key_name", "keypair", "ssh_key_name"),
    "berth_reboot=hard, of reboot": ("hard",),
    "berth_shutdown_timeout": ("timeout",),
    "berth_shutdown_timeout=0, of stop, or berth_reboot=hard, of reboot": ("force",),
    "berth_snapshot": ("snapname", "snapshot_name"),
    "berth_user_data": ("cloud_init", "cloudinit"),
}
OTHER_NAMES = {name: ours for ours, names in MEANT.items() for name in names}
LEFT_OVER = "_raw_params"  # where Ansible silently puts words of -e that are not name=value


def check_variables(action: Any, task_vars: Dict[str, Any], kvm_hosts: Iterable[str]) -> None:
    """Raise UnknownVariable for all unknown ones: of every host of the inventory, selected or not, of -e and of the
    play, and InvalidInput for a value that CHECKED refuses. Warn of variables of instances on KVM hosts, and of
    settings of these on an instance."""
    berth_where_hosts.check(action, task_vars)
    patterns = action.own_variables(task_vars, PATTERNS)
    check_patterns(task_vars.get("ansible_limit"), patterns)
    check_names({**patterns, **_given_names(action, task_vars)})
    extra_vars = load_extra_vars(action._loader)
    if LEFT_OVER in extra_vars:
        raise InvalidInput("-e", extra_vars[LEFT_OVER], "name=value", hint=fleet_hints.quote_value())
    check_set_by_the_run(task_vars.get("ansible_limit"), extra_vars)
    hosts, of_kvm = [str(name) for name in task_vars["groups"]["all"]], frozenset(kvm_hosts)
    values = {host: raw_vars(task_vars, host) for host in hosts}
    own = _names(action.own_variables(task_vars, [OWN]).get(OWN))
    errors = _without_prefix(extra_vars, values, own) + _errors(
        task_vars, values, _unknown(task_vars) - own, extra_vars
    )
    errors += [*_hosts_of_inventory(values, extra_vars), *_unknown_hosts(action, task_vars, extra_vars, of_kvm)]
    if errors:
        raise joined(errors)
    for old in sorted(RENAMED.keys() & {name for its in values.values() for name in its}):
        warn(renamed(old))
    localhost = raw_vars(task_vars, "localhost")
    of_hosts = {host: its for host, its in values.items() if host in of_kvm}
    of_instances = {host: its for host, its in values.items() if host not in of_kvm and "berth_flavor" in its}
    _warn_of_settings(of_hosts, values, own)
    warn_of_misplaced(OF_HOSTS, of_instances, [localhost, *of_hosts.values()], misplaced.ON_INSTANCE)
    warn_of_misplaced(OF_INSTANCES, of_hosts, [localhost, *of_instances.values()], misplaced.ON_KVM_HOST)
    warn_of_misplaced(CATALOG, of_hosts, [localhost, *of_instances.values()], misplaced.CATALOG_ON_KVM_HOST)
    check_unread({name: extra_vars[name] for name in {*RUN, *PUBLISHED, *ITS_HOST, *WISHES} & extra_vars.keys()})


def _hosts_of_inventory(values: Mapping[str, Mapping[str, Any]], extra_vars: Mapping[str, Any]) -> Iterator[BerthError]:
    """Ansible decides which hosts a play is for without the variables of the inventory, so one there would count in some tasks
    alone."""
    name = "berth_kvm_hosts"
    given = [its[name] for its in values.values() if name in its]
    if given and name not in extra_vars:
        hint = fleet_hints.name_group_of_hosts(None)
        yield InvalidInput(name, plain(given[0], name), "given with -e, not in the inventory", hint=hint)


def _unknown_hosts(
    action: Any, task_vars: Dict[str, Any], extra_vars: Mapping[str, Any], kvm_hosts: Iterable[str]
) -> List[BerthError]:
    """An error for each KVM host that -e names and that there is not; where there is none at all, that is the error."""
    known = sorted(kvm_hosts)
    given: Dict[str, Any] = {}
    for name in fleet_options.HOSTS:
        if known and name in extra_vars:
            with contextlib.suppress(AnsibleError, InvalidInput):
                given.update(action.own_variables(task_vars, [name]))
    errors: List[BerthError] = list(fleet_options.unknown_hosts(given, known, task_vars["groups"]))
    store, stores = extra_vars.get(fleet_options.BACKUP_HOST), task_vars["groups"].get(fleet_options.BACKUP_HOSTS, ())
    return errors + [no_host("-e", store, stores)] * bool(store and not is_rendered(store) and store not in stores)


def check_settings(task_vars: Dict[str, Any], hosts: Iterable[str]) -> None:
    """Raise InvalidInput for settings of KVM hosts, which are to be prepared, whose templates fail, and for what nobody can log
    in with."""
    found: Dict[str, Tuple[InvalidInput, List[str]]] = {}
    for host in hosts:
        for name in [name for name in (*OF_HOSTS, *login.CHECKS) if name in raw_vars(task_vars, host)]:
            try:
                for value in variables(task_vars, host, [name]).values():
                    login.CHECKS.get(name, login.Rendered()).check(value, name)
            except InvalidInput as error:
                found.setdefault(str(error), (error, []))[1].append(host)
    for error, names in found.values():
        error.message = "%s: %s" % (listed(names), error.message)
    if found:
        raise joined(error for error, _names in found.values())


def renamed(old: str) -> str:
    return "%s: its name is %s now, and the old one is gone with 2.0.0" % (old, RENAMED[old])


def _without_prefix(
    extra_vars: Mapping[str, Any], values: Mapping[str, Mapping[str, Any]], own: Set[str]
) -> List[BerthError]:
    """Errors for what -e calls by the name of a variable without berth_, or nearly; a warning for what others call so. In an
    inventory such a name is somebody else's."""
    ours = {name[len(PREFIX) :]: name for name in SETTABLE if name.startswith(PREFIX)}
    ours.update({"limit": "--limit", "kvm_host": A_HOST})
    if runs_ours():  # and not a play of somebody's own, which may read it: a warning would come with the loss
        ours.update({name: KEEPING for name in MEANT[KEEPING]})
    others = [str(name) for name in extra_vars if name not in own and name not in OPTIONS and not OURS.match(str(name))]
    given = {name: nearest(name, ours, MISSPELLED) for name in others}
    for name in sorted(name for name, right in given.items() if not right):
        ours_of_it = OTHER_NAMES.get(name) or " or ".join(meant_by(name))
        if ours_of_it and not _in_template(name, {"-e": extra_vars, **values}):
            hint = "%s %s" % (meant(ours_of_it), input_hints.list_own_variables(OWN))
            warn("-e: nothing of berth.kvm reads the variable %s. %s" % (name, hint))
    return [
        UnknownVariable(
            "-e: there is no variable %s" % name,
            field=name,
            hint="%s %s" % (meant(ours[right]), input_hints.list_own_variables(OWN)),
        )
        for name, right in sorted(given.items())
        if right
    ]


def _warn_of_settings(
    of_hosts: Mapping[str, Mapping[str, Any]], values: Mapping[str, Mapping[str, Any]], own: Set[str]
) -> None:
    """Nova's name of a setting, at a KVM host of the inventory, is hardly somebody else's."""
    for name in sorted(name for name in host_settings.CHECKS if "_" in name and name not in own):
        hosts = [host for host, its in of_hosts.items() if name in its]
        if hosts and not _in_template(name, values):
            hint = "%s %s" % (meant(host_settings.VARIABLE + name), input_hints.list_own_variables(OWN))
            warn("%s: nothing of berth.kvm reads the variable %s. %s" % (listed(hosts), name, hint))


def _in_template(name: str, values: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a variable of the inventory, or another one of -e, may read it."""
    word = re.compile(r"\b%s\b" % re.escape(name))
    return any(is_rendered(value) and word.search(repr(value)) for its in values.values() for value in its.values())


def _given_names(action: Any, task_vars: Dict[str, Any]) -> Dict[str, Any]:
    """The names that are no patterns, which were read already."""
    found: Dict[str, Any] = {}
    for name in sorted({*NAMES} - {*PATTERNS}):
        # a template of what only an instance has is reported where it is needed
        with contextlib.suppress(AnsibleError, InvalidInput):
            found.update(action.own_variables(task_vars, [name]))
    return found


def _errors(
    task_vars: Dict[str, Any], values: Mapping[str, Mapping[str, Any]], of_play: Set[str], extra_vars: Mapping[str, Any]
) -> List[BerthError]:
    """An error for each unknown variable of any host, of the play (``of_play``) or of -e (``extra_vars``), then for each value
    that CHECKED refuses."""
    found: Dict[str, List[str]] = {variable: [] for variable in of_play}
    wrong: Dict[Tuple[str, str, Optional[str]], List[str]] = {}
    for host, its in values.items():
        for variable in _unknown_of(task_vars, host, its):
            found.setdefault(variable, []).append(host)
        for fault in _wrong_of(task_vars, host, its):
            wrong.setdefault(fault, []).append(host)

    def where(variable: str, names: List[str]) -> str:
        return "-e" if variable in extra_vars else _where(names, list(values))

    errors: List[BerthError] = [_error(variable, where(variable, names)) for variable, names in sorted(found.items())]
    if errors:
        errors[-1].hint = " ".join(filter(None, [errors[-1].hint, input_hints.list_own_variables(OWN)]))
    return errors + [
        InvalidInput(
            "%s: %s" % (where(variable, names), variable), json.loads(value), CHECKED[variable].rule, hint=hint
        )
        for (variable, value, hint), names in sorted(wrong.items(), key=str)
    ]


def _unknown(values: Mapping[str, Any]) -> Set[str]:
    """Only the names are checked. What the actions of a run keep for each other are facts."""
    facts = values.get("ansible_facts") or ()
    found = {str(name) for name in values if OURS.match(name) and name not in KNOWN and name not in facts}
    return found | {str(name) for name in values if _option_meant(name)}


def _option_meant(name: str) -> Optional[str]:
    """Return the option of a role that ``name`` is probably meant to be. Others may use these prefixes for names of
    their own, so a name that is like no option is not unknown."""
    option = OF_ROLE.match(name)
    if option is None or name in OPTIONS:
        return None
    prefix = option[1] + "_"
    near = nearest(option[2], [known[len(prefix) :] for known in OPTIONS if known.startswith(prefix)], MISSPELLED)
    return near and RENAMED.get(prefix + near, prefix + near)


def _unknown_of(task_vars: Dict[str, Any], host: str, values: Mapping[str, Any]) -> Set[str]:
    unknown = _unknown(values)
    return unknown - _names(variables(task_vars, host, [OWN]).get(OWN)) if unknown else unknown


def _wrong_of(
    task_vars: Dict[str, Any], host: str, values: Mapping[str, Any]
) -> Iterator[Tuple[str, str, Optional[str]]]:
    """Yield (variable, its value as JSON, what to do) for those that CHECKED refuses."""
    for variable in CHECKED.keys() & values.keys():
        with contextlib.suppress(InvalidInput):  # a template that cannot be rendered is reported where it is needed
            value = value_of(task_vars, host, values, variable)
            try:
                CHECKED[variable].check(value, variable)
            except InvalidInput as error:
                yield variable, json.dumps(value), error.hint


def _names(own: Any) -> Set[str]:
    """With -e it is text, names separated by commas."""
    names = own.replace(",", " ").split() if isinstance(own, str) else own or []
    return set(ListOf(Text()).check(names, OWN))


def _where(names: List[str], hosts: List[str]) -> str:
    if not names:
        return "the play"
    if names == hosts and len(names) > 1:
        return "all hosts"
    return listed(names)


def _error(variable: str, where: str) -> UnknownVariable:
    """Names are compared without their prefix: it would make all of them similar. So would an end such as _timeout, so the
    first word counts by itself."""
    known = {name.partition("_")[2]: name for name in SETTABLE}
    name = OURS.sub("", variable)
    begin = name.partition("_")[0]
    alike = [other for other in known if nearest(begin, other.split("_"))]
    near = _option_meant(variable) or OTHER_NAMES.get(name) or "".join(meant_by(name)[:1])
    near = near or known.get(nearest(name, alike, ALIKE) or "")
    return UnknownVariable("%s: there is no variable %s" % (where, variable), field=variable, hint=near and meant(near))
