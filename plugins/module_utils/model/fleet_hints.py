# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about a host as part of the fleet, made only on the controller: who logs in there, how to remove it, how a
run goes on that was interrupted, what AWX does otherwise than a terminal, and which options of a run are meant. See hints.py."""

from __future__ import annotations

import shlex
from typing import Optional, Sequence

from . import hints, input_hints
from .identity import DEFAULT_PROJECT
from .safe_text import visible


def _bring_back_first(silent: Sequence[str]) -> str:
    """The machine that is looked for may be one of the ``silent``, those of the inventory that do not answer."""
    return "If it has another name by now, bring %s back first. " % " and ".join(silent) if silent else ""


def allow_become(host: str, method: str) -> str:
    """The login user may not become root on the host, has no password for that, or the become program is missing."""
    return (
        "On %s, install %s and allow that user to run every command through it. If it asks for a password, run this "
        "again with --ask-become-pass. Or log in there as root (ansible_user)" % (host, method)
    )


# By the rule of placement that refused a host: what to do there.
GIVE_HOSTS = {
    "networks": "Make what is missing on a host, or correct source in berth_networks_defined",
    "pool": "berth.kvm.prepare_hosts makes and starts the pool of a host; another one is started with virsh pool-start. Or "
    "correct berth_pool",
    "free_bytes": "Make room in that pool: delete files of others, snapshots that nobody needs, or move an instance away",
}


def write_assertions() -> str:
    """The file of berth_assertions is missing, or is no list of assertions."""
    return "Write it as a list such as [{name: any host may fail, survive: 1}] and pass -e berth_assertions=FILE"


def give_hosts_of_question() -> str:
    """berth.kvm.what_if has no host that is to be gone, and none that is to be added."""
    return "Pass -e berth_hosts_gone=HOST for less, -e berth_hosts_like=HOST for one more like it"


def enlarge_pool(network: str) -> str:
    """All addresses of a network's pool are taken."""
    return "Add ranges to berth_networks_defined.%s.pool, or delete an instance that nobody needs" % network


def correct_python(host: str) -> str:
    """The interpreter of a host is not there, too old, or no Python."""
    return (
        "Set ansible_python_interpreter of %s to a Python 3.9 or later that is there, such as /usr/bin/python3" % host
    )


def correct_login() -> str:
    """Ansible cannot render a variable with which it logs in to a host."""
    return "Correct that variable of the inventory, such as ansible_host or ansible_become_password; the host itself is not at fault"


def check_cloud_config() -> str:
    """A cloud-config is no mapping in YAML."""
    return "Correct it before the instance is created; cloud-init schema -c FILE checks a file"


def move_existing(name: str, host: Optional[str]) -> str:
    """An option of create says on which host an instance is made that exists on another."""
    return "To move it: berth.kvm.migrate --limit %s%s" % (name, " -e berth_target_host=%s" % host if host else "")


def make_login_work(hosts: Sequence[str]) -> str:
    """Hosts let nobody log in, and their sshd answers: guests may run there, so nobody is to give them up as lost."""
    return "Make the login to %s work, as its line says, and run again" % ", ".join(hosts)


def mend_host(hosts: str) -> str:
    """Hosts answer, but not what they hold. Guests may run there, so nobody is told to switch them off."""
    return "Repair what the message names on %s, then run again" % hosts


def make_bridge(bridge: str, host: str) -> str:
    """The bridge of a running guest was renamed or removed on its host."""
    return "Make bridge %s on %s again. Then berth.kvm.doctor -e berth_fix=true connects the guest while it runs" % (
        bridge,
        host,
    )


def one_host_for_group(group: str) -> str:
    """The policy of a server group is affinity, and its members are on several hosts."""
    return (
        "Bring them to one host with berth.kvm.migrate -e berth_target_host=HOST, or give the group another policy, such as "
        "soft-affinity, in berth_server_groups.%s" % group
    )


def run_again_after_interruption() -> str:
    """A person or a program ended the run in the middle."""
    return "Hosts may still finish the step that they were given. Run the same command again: it goes on from there"


def list_again() -> str:
    """A host has instances that are not in the inventory."""
    return (
        "If another inventory has them, or they were made with -e berth_name, leave them. If somebody renamed one in this "
        "inventory, give it its old name back: an instance keeps the name that it was created with. berth.kvm.show without "
        "a selection shows each, and how to select it"
    )


def options_of(name: str, project: Optional[str]) -> str:
    """What selects an instance that is in no inventory. A part of a command. ``project``: None where the usual one is meant."""
    return "-e berth_name=%s%s" % (shlex.quote(name), " -e berth_project=%s" % shlex.quote(project) if project else "")


def move_alone(name: str, project: str) -> str:
    """An instance of no inventory has the name of another one, so that a drain or a plan cannot tell them apart."""
    return "berth.kvm.live_migrate or cold_migrate with %s moves it. Then run this again" % options_of(name, project)


def list_it_first(name: str, project: str, uuid: str, was_adopted: bool) -> str:
    """A drain or a plan is to move an instance whose uuid its name does not tell, and that is in no inventory."""
    variable = "berth_adopted" if was_adopted else "berth_uuid"
    return (
        "Add %s with %s: %s to the inventory, or move it alone: berth.kvm.migrate with %s -e %s=%s. Then run the same again"
        % (name, variable, uuid, options_of(name, project), variable, uuid)
    )


def select_unlisted(options: str) -> str:
    """An instance that is in no inventory, so that --limit does not find it. ``options``: none if its name is not known."""
    return "in no inventory" + (": %s selects it" % options if options else "")


def empty_host(host: str) -> str:
    """A host is to be removed and holds something."""
    return (
        "Move what is on %s to other hosts (berth.kvm.drain), confirm or revert its moves, and delete what nobody needs "
        "(berth.kvm.delete, berth.kvm.delete_volume). berth.kvm.doctor says what to do with files that have no record. Then run "
        "this again" % host
    )


def give_up_instances(host: str) -> str:
    """A lost host is to be removed, and other hosts remember instances there that are nowhere else."""
    return (
        "First run berth.kvm.evacuate -e berth_lost_hosts=%(host)s for the instances whose disks are on shared "
        "storage. The data of the others are lost with %(host)s. With their names in --limit, run berth.kvm.delete -e "
        "berth_lost_hosts=%(host)s for those that nobody needs, and berth.kvm.create -e berth_lost_hosts=%(host)s for the "
        "others. It says which disks are given up, and creates nothing before you name these instances. Then run this again"
        % {"host": host}
    )


def gain_majority(hosts: Sequence[str]) -> str:
    """Too few of the fleet's hosts answer to make new instances."""
    return (
        "Bring %s back and run again. Take a host that is gone for good out of the fleet with berth.kvm.remove_host. Only if you know "
        "that nobody creates instances from another part of the network: -e berth_without_majority=true"
        % " or ".join(hosts)
    )


def join_the_fleet() -> str:
    """The hosts have not agreed on which of them belong to the fleet, or some are not among these."""
    return "Run berth.kvm.prepare_hosts while all hosts answer"


def rebuild_lost(name: str, lost: Sequence[str]) -> str:
    """An instance would be created again without the disks that a lost host has, or may have."""
    return (
        "If a host is not lost for good, bring it back and run again without berth_lost_hosts. If the disks are on shared "
        "storage, run berth.kvm.evacuate --limit %(name)s -e berth_lost_hosts=%(lost)s. Only if nobody needs these data: "
        "berth.kvm.create --limit %(name)s -e berth_lost_hosts=%(lost)s -e berth_rebuild_lost=%(name)s makes it again, empty"
        % {"name": name, "lost": ",".join(lost)}
    )


def remake_lost_volumes(name: str, lost: Sequence[str]) -> str:
    """update_disks would make volumes of an instance anew that a lost host may have."""
    return (
        "If a host is not lost for good, bring it back and run again without berth_lost_hosts. Only if nobody needs these "
        "data: berth.kvm.update_disks --limit %(name)s -e berth_lost_hosts=%(lost)s -e berth_rebuild_lost=%(name)s makes "
        "these volumes again" % {"name": name, "lost": ",".join(lost)}
    )


def find_records(host: str) -> str:
    """A host that is to be removed has no record of instances that other hosts last saw there."""
    return (
        "Mount or restore the state directory of %s. Or, with the names of these instances in --limit, run "
        "berth.kvm.restore_record, which restores records from what %s still has, and berth.kvm.delete for those that "
        "nobody needs. Then run this again" % (host, host)
    )


def restore_unlisted_record(uuid: str, host: str) -> str:
    """The host has a guest of an instance that the inventory does not have, so that no --limit selects it, and no record of it."""
    return (
        "Mount or restore the state directory of %(host)s, then run again. If there is no newer copy: berth.kvm.restore_record "
        "-e berth_name=NAME -e berth_project=PROJECT restores what %(host)s has, if no other host can have the instance. "
        "`virsh dumpxml %(uuid)s` on %(host)s shows both, as berth:name and berth:project"
        % {"uuid": uuid, "host": host}
    )


def name_it_once(volume: str, names: Sequence[str]) -> str:
    """Two instances of one run name the same volume."""
    return "A volume is in one instance: take %s out of berth_volumes of %s" % (volume, " or of ".join(names))


def name_its_project(name: str, project: str) -> str:
    """Only another project has an instance of this name."""
    return "If that is meant: %s" % options_of(name, project)


def delete_without_record(uuid: str, name: str, host: str) -> str:
    """The host that had the instance has no record of it, no guest from which to restore one, and no note of its removal."""
    return (
        "%(host)s has no guest from which to restore the record. Restore its state directory from a backup, then run again. If there "
        "is none that has the record, or the instance was deleted: save what is needed of instances/%(uuid)s in the pools of "
        "%(host)s, then run berth.kvm.delete --limit %(name)s. berth.kvm.create makes the instance anew then, empty"
        % {"name": name, "uuid": uuid, "host": host}
    )


def continue_with_older(name: str, uuid: str, owner: str, host: str) -> str:
    """``owner``, which other hosts remember, answers and has neither a record of the instance nor its guest. ``host`` has a copy."""
    return (
        "If a backup of the state directory of %(owner)s has this record, restore it there and run the same again. If there is none, "
        "look on %(owner)s, as root: virsh list --all must not show %(uuid)s. instances/%(uuid)s in its pools may have what the guest "
        "wrote last: copy it elsewhere. To continue with the copy on %(host)s, without that: berth.kvm.restore_record --limit %(name)s "
        "-e berth_recover_on=%(host)s" % {"name": name, "uuid": uuid, "owner": owner, "host": host}
    )


def older_or_later(name: str, uuid: str, owners: Sequence[str], running: Sequence[str], host: str) -> str:
    """``owners`` have an older record of an instance, by which it runs on ``running``; ``host`` has a guest of it without the record
    of a later owner."""
    recover = "run berth.kvm.restore_record --limit %s -e berth_recover_on=" % name
    stop = "as root on %s: virsh shutdown %s; when it is off, " % (" and ".join(running), uuid) if running else ""
    older = "If it is that on %s: %s%s. " % (owners[0], recover, owners[0]) if len(owners) == 1 else ""
    return (
        "Find out which copy is right, that on %s. %sIf it is that on %s: %s%s%s. Then run berth.kvm.keep_one_copy --limit %s "
        "-e berth_keep_on=%s" % (" or that on ".join((*owners, host)), older, host, stop, recover, host, name, host)
    )


def take_out_host(host: str) -> str:
    """The certificates of a host were revoked."""
    return (
        "Take %s out of the inventory now. Then run berth.kvm.prepare_hosts: it gives the other hosts the list of "
        "revoked certificates. Until then they accept those of this host" % host
    )


def clean_later(host: str) -> str:
    """A lost host was removed without being asked."""
    return (
        "Nothing was removed on %s, which was not asked. If it ever answers again, put it into the inventory and run this "
        "without berth_lost_hosts, which cleans it" % host
    )


def note_certificates(host: str) -> str:
    """An authority does not know which certificates it signed for a host: an earlier version did not note them."""
    return (
        "If %s is up, run berth.kvm.prepare_hosts --limit %s, which notes its certificates, and then this again. If not, the "
        "other hosts accept its certificates until they expire" % (host, host)
    )


def go_on_rotating() -> str:
    """A rotation of the authorities waits for hosts."""
    return (
        "Run berth.kvm.rotate_authority again without --limit when each KVM host answers: it continues where it stopped. First remove "
        "hosts that are gone for good with berth.kvm.remove_host"
    )


def name_authority() -> str:
    """A host is removed, and no authority was found that could have signed its certificates."""
    return (
        "If the hosts have certificates for live migration, run this again on the machine and with the berth_ca_directory that "
        "berth.kvm.prepare_hosts was run with"
    )


def lost_by_uuid(name: str, uuids: Sequence[str]) -> str:
    """Several silent hosts had the name that was given as lost."""
    return (
        "Find out which of them is switched off for good, and give its uuid beside the name: -e berth_lost_hosts=%s,UUID. "
        "On a running host, virsh capabilities shows its uuid; bring that host back, under its present name. "
        "If all are switched off for good: -e berth_lost_hosts=%s" % (name, ",".join([name, *uuids]))
    )


def renamed_or_copied(host: str, silent: str) -> str:
    """A host has the uuid by which others know a silent one: it was renamed, or runs from a copy of its disks."""
    return (
        "If %(host)s is the machine %(silent)s under a new name, take %(silent)s out of the inventory. If %(host)s "
        "runs from a copy of the disks of %(silent)s, switch %(host)s off, take %(host)s out of the inventory and "
        "bring %(silent)s back. Then run the same again" % {"host": host, "silent": silent}
    )


def recover_or_start(name: str) -> str:
    """The guest is off, and its record says that it runs."""
    return (
        "If its host lost power, berth.kvm.start_after_outage starts it, and all others that were running. Otherwise "
        "berth.kvm.start --limit %s starts it, and berth.kvm.stop --limit %s keeps it off" % (name, name)
    )


def start_what_fell(name: str) -> str:
    """A host is opened after its boot, and an instance that ran there is off."""
    return "%s ran there, and is off. berth.kvm.start_after_outage starts it" % name


def forget_unlisted_build(host: str, name: str, uuid: str, project: str) -> str:
    """An instance could not be built on ``host``, and the inventory has it no longer. If ``name`` is the uuid, nobody knows
    the one from which it follows."""
    if name == uuid:
        return "Remove its entry from /var/lib/berth/failures.json on %s" % host
    of_project = None if project == DEFAULT_PROJECT else project
    return "If nobody needs it, run berth.kvm.delete %s to forget it" % options_of(name, of_project)


def unlisted(host: str, silent: Sequence[str]) -> str:
    """The inventory has no host of the name by which others know the one that may hold the instance. ``silent``: those of the
    inventory that do not answer, one of which may be that machine under a new name."""
    put = _bring_back_first(silent) + ("Otherwise put" if silent else "Put")
    return "%s %s back into the inventory, and run again. %s" % (put, host, hints.LOST % host)


def replaced(host: str, uuid: str, silent: Sequence[str]) -> str:
    """Another machine answers under the name of one that had instances, which is ``uuid``: it was reinstalled, or replaced.
    ``silent``: the hosts of the inventory that do not answer, one of which may be that machine under a new name."""
    return _bring_back_first(silent) + (
        "If %(host)s has the address of another machine, correct its ansible_host. If it was reinstalled or replaced, run "
        "berth.kvm.prepare_hosts --limit %(host)s. Then instances whose disks are still in its pool or on shared storage "
        "continue with berth.kvm.evacuate --limit NAME -e berth_lost_hosts=%(host)s -e berth_disks_of=%(uuid)s. Those whose "
        "disks are gone: berth.kvm.create --limit NAME -e berth_lost_hosts=%(host)s -e berth_rebuild_lost=NAME makes them again, "
        "empty. If neither is so, what is remembered of it is wrong: give up nothing, and find out why the hosts that say so do"
        % {"host": host, "uuid": uuid}
    )


def replaced_in_move(host: str, uuid: str, silent: Sequence[str]) -> str:
    """The same of a host of a move. Only the other host's record says which machine it was; ``uuid`` is the instance's."""
    return _bring_back_first(silent) + (
        "If %(host)s has the address of another machine, correct its ansible_host. If it was reinstalled or replaced, what it "
        "knew of this move is lost: copy away what its pool still has in instances/%(uuid)s, and run the same again with -e "
        "berth_lost_hosts=%(host)s. If neither is so, the record of the move is wrong: give up nothing, and restore record.json "
        "below instances/%(uuid)s of the other host from a backup" % {"host": host, "uuid": uuid}
    )


def listed_twice(hosts: str) -> str:
    """Hosts of the inventory answer with one uuid."""
    return (
        "Compare the ansible_host of %s with those of the others. If they are one machine, take the wrong name or address "
        "out of the inventory. If one has a copy of the other's disks, switch the copy off and take it out. If they are two "
        "machines whose boards have one uuid: on the one that holds nothing, set another host_uuid (from uuidgen) in "
        "libvirtd.conf (or virtqemud.conf), restart libvirt, remove /etc/berth/host.json, and run berth.kvm.prepare_hosts with "
        "it in --limit. Then run the same again" % hosts
    )


def take_one_out() -> str:
    """The same, in the line of each of them."""
    return "If they are one machine, take all names of it but one out of the inventory; else berth.kvm.doctor says what to do"


def compare_machines(host: str, other: str) -> str:
    """A host has the certificate of another name of the inventory, and that is not in this run to be compared with it."""
    return (
        "Run berth.kvm.prepare_hosts --limit %(host)s,%(other)s, which compares the machines. If %(other)s does not "
        "answer then: if it is an earlier name of %(host)s, take it out of the inventory; otherwise bring it back first"
        % {"host": host, "other": other}
    )


def forget_failed_builds(host: str) -> str:
    """Builds failed on a host of late, so that placement prefers others. ``host``: its name in the inventory."""
    return (
        "On %s, repair what made the builds fail; the output of the failed run names it. Then run "
        "berth.kvm.prepare_hosts --limit %s -e berth_host_forget_failed_builds=true. Otherwise each failure counts half "
        "as much after each hour, and the next build that succeeds there clears them" % (host, host)
    )


def delete_older(name: str, host: str, lost: Sequence[str]) -> str:
    """As state_hints.make_latest, but the record that answers is not at rest: it was never built to its end, or is being deleted."""
    lost_hosts = ",".join(lost)
    return (
        "What %s has of it was never built to its end, or is being deleted. If %s can never come back and its copy of %s is "
        "lost, run berth.kvm.delete --limit %s -e berth_lost_hosts=%s, which removes that, then berth.kvm.create --limit %s "
        "-e berth_lost_hosts=%s -e berth_rebuild_lost=%s, which makes it anew, empty"
        % (host, " or ".join(lost), name, name, lost_hosts, name, lost_hosts, name)
    )


def same_address(names: Sequence[str]) -> str:
    """Several instances have one address, or an instance and a guest that berth does not manage."""
    return (
        "Let only one of them run: berth.kvm.stop --limit %s, or stop what has the same address. An instance keeps its address "
        "for as long as it exists: to run all of them, save what is on one, run berth.kvm.delete for it, and create it again with another "
        "address" % ",".join(names[:1])
    )


def which_record(name: str, uuid: str, hosts: Sequence[str]) -> str:
    """Hosts contradict each other about a move of an instance, or one tells of a move that cannot be its own. Any of them may lie."""
    return (
        "Find out which record is old or wrong, that on %(hosts)s. The state directory of that host may have been restored from a "
        "backup, or it was given up as lost and is back. berth.kvm.show --limit %(name)s -v prints what each host says that it did, "
        "which a host can invent; who uses the guest knows where it ran last. Then move record.json below instances/%(uuid)s out of "
        "the state directory there, keep that file, and run again: its disks stay in its pool. If that was the wrong host, put "
        "the file back" % {"name": name, "uuid": uuid, "hosts": " or that on ".join(hosts)}
    )


def keep_authority_of_a_job() -> str:
    """For an authority of the certificates that would be made in the container of an AWX job."""
    return (
        "Mount a volume that stays into the container, make a directory on it with mode 0700, and set berth_ca_directory "
        "to that. Or run prepare_hosts on a controller that keeps its files. Without live migration, set "
        "berth_host_certificates to false"
    )


def name_as_text(variable: str) -> str:
    """For a name that YAML has read as a number, such as 0123 as 83."""
    return (
        "Pass -e %s=NAME, which is text, or put the name into quotes in a file of variables. AWX passes the answer of a "
        "survey on without quotes: give a name that is no number, or select with the limit of the job" % variable
    )


def writable_state_home() -> str:
    """The controller's own directory cannot be made or written, as in a container whose user has no home directory."""
    return (
        "Set the environment variable XDG_STATE_HOME of ansible-playbook to the absolute path of a directory that this "
        "user may write and that lasts. Then run the same again"
    )


def keep_flavor(name: str, has: str, asked: str) -> str:
    """The flavor of the inventory is one that no resize reaches."""
    if has == asked:
        return "No resize does that: give flavor %s in the catalog what %s has" % (has, name)
    return "No resize does that: set berth_flavor: %s for %s in the inventory" % (has, name)


def unlock_in_inventory(name: str) -> str:
    """A variable of the inventory locks the instance."""
    return (
        "When whoever set it agrees: take berth_locked out of the variables of %s in the inventory, where ansible-inventory "
        "--host %s shows it, or for one run -e berth_locked=false. berth.kvm.unlock does not lift it" % (name, name)
    )


def plan_again() -> str:
    """A plan for the fleet is no longer what the fleet needs, or cannot be carried out as it is."""
    return "Nothing was moved by this run. Make a new plan with berth.kvm.plan"


def pass_over_booted(since: str) -> str:
    """A rolling reboot begins. ``since``: the time, in UTC."""
    return (
        "If it ends early, run the same command again with -e berth_since=%s: it passes over what was booted since"
        % since
    )


def install_solver() -> str:
    """The controller has no OR-tools."""
    return (
        "Run pip install ortools in the Python environment of ansible-playbook (requirements-fleet.txt of this collection "
        "names the version), then run the same command again"
    )


def carry_out_plan(path: str) -> str:
    """A plan was written, and nothing was moved yet."""
    return "To carry it out: ansible-playbook -i fleet.yml berth.kvm.apply_plan -e berth_plan=%s" % shlex.quote(path)


def choose_goal() -> str:
    """berth.kvm.plan has no goal."""
    return "Pass one, such as -e berth_goal=balance"


def name_plan() -> str:
    """berth.kvm.apply_plan has no plan."""
    return "Pass -e berth_plan=FILE; berth.kvm.plan -e berth_goal=GOAL -e berth_plan=FILE writes it"


def keep_plan() -> str:
    """A plan was only shown."""
    return "To carry it out, run this again with -e berth_plan=FILE, which writes it, and then berth.kvm.apply_plan with the same"


def select_on_host(host: str) -> str:
    """A KVM host is selected where instances are meant: those that it has."""
    return (
        "The instances on %s are selected with -e \"berth_where=host=='%s'\"; berth.kvm.drain -e berth_kvm_host=%s empties it"
        % (host, host, host)
    )


def adopt_on(host: str) -> str:
    """A KVM host is selected where guests are to be adopted."""
    return (
        "berth.kvm.adopt -e berth_adopt_on=%s lists its guests that are no instances; with -e berth_name=NAME it adopts one"
        % host
    )


def select_with_pattern() -> str:
    """A list of names is given as text."""
    return "It is text, not a list. Write : between the names, such as web1:web2. AWX passes the answers of a survey on as text"


# --- an instance that was renamed


def name_renamed(name: str, uuid: str) -> str:
    """An instance was asked for by a name that it had before, or by its new one without the uuid that it kept."""
    return (
        "If that is the one: call it %(name)s in the inventory and set berth_uuid: %(uuid)s for it, or add"
        " -e berth_name=%(name)s -e berth_uuid=%(uuid)s" % {"name": name, "uuid": uuid}
    )


def without_uuid(name: str) -> str:
    """The inventory gives an instance the uuid that it had before it was renamed, and no host has it any more."""
    return "To make %s anew: take its berth_uuid out of the inventory, and create it" % name


def give_with_e(variable: str) -> str:
    """A variable that only -e can set is one of the inventory, of a playbook or of a role."""
    return (
        "Pass -e %s=NAME. A playbook that imports this one selects with berth_instances; a role is about the hosts of its play"
        % variable
    )


def leave_run_once_out() -> str:
    """A task would be carried out for the first of the instances of a play alone."""
    return "Leave it out: one process does the work of all instances of the play anyway"


def set_for_all(variable: str) -> str:
    """A KVM host has a part of the catalog, which is read for instances."""
    return "Set %s where every instance inherits it, such as in group_vars/all.yml, and remove it here" % variable


def name_new(variable: str) -> str:
    """A new name, of an instance or of its image, is missing or would be that of several."""
    return "Pass -e %s=NAME, with --limit of one instance" % variable


def another_new_name() -> str:
    """The new name of an instance is that of another one, or was that of another one that has its uuid still."""
    return "Choose another name, or delete or rename the instance that has it first"


def define_or_keep() -> str:
    """A template reads a variable that there is not; the braces may be those of cloud-init or another tool."""
    return "Define it, or correct its name. If the braces are not for Ansible, write !unsafe before the text in YAML"


def delete_it() -> str:
    """An instance is to be gone by its state in the inventory."""
    return "berth.kvm.delete --limit NAME deletes an instance; then take it out of the inventory"


def look_above() -> str:
    """No host has the variable of an instance; of an inventory with a mistake Ansible takes what is before it."""
    return "If you gave it to one, Ansible says above why it could not read the whole inventory"


def superseded_copy(host: str, teller: str) -> str:
    """A host given up as lost is back with a copy of an instance that, as another host says, went on without it."""
    return (
        "Only %(teller)s says so. berth neither starts nor removes the copy on %(host)s. First log in to the guest on "
        "%(teller)s and make sure that it is complete and in use. Only then, if nobody needs the copy on %(host)s "
        "with what was written there last: -e berth_lost_hosts=%(host)s" % {"host": host, "teller": teller}
    )


def bring_record_of_move_back(source: str, destination: str, name: str, uuid: str) -> str:
    """The source answers without a record of the move, as after a restore of the whole host, while neither host owns the
    instance."""
    return (
        "%(source)s answers, and the record of this move and the disks there are gone, as after a restore from an older backup. Restore "
        "instances/%(uuid)s in its state directory and in its pool from a backup that was made during the move, and run the same again. "
        "If there is none: the disks on %(destination)s may be the only copy, whole or not, so copy instances/%(uuid)s from its pool "
        "elsewhere; then berth.kvm.delete --limit %(name)s removes the instance"
        % {"source": source, "destination": destination, "name": name, "uuid": uuid}
    )


def revert_gives_up(source: str, destination: str) -> str:
    """The other host is lost before the hand-over: the source has everything that is needed."""
    return "berth.kvm.revert_resize -e berth_lost_hosts=%s gives the move up; the instance stays on %s" % (
        destination,
        source,
    )


def bring_source_back(source: str, destination: str) -> str:
    """The source is lost while neither host owns the instance: only the source can tell how that ends."""
    return (
        "Bring %(source)s back and run the same again without -e berth_lost_hosts=%(source)s. Until then delete nothing: "
        "%(destination)s may hold the only copy" % {"source": source, "destination": destination}
    )


def confirm_without(source: str) -> str:
    """A revert was begun, and the source holds nothing of the instance any more."""
    return (
        "%s holds no copy to go back to. berth.kvm.confirm_resize -e berth_lost_hosts=%s keeps the guest where it is, "
        "with everything that it wrote" % (source, source)
    )


def revert_with_lost_destination(source: str, destination: str) -> str:
    """The destination of a resize is lost after the hand-over; the source still has its disks from before."""
    return (
        "%s has the disks from before the move: berth.kvm.revert_resize -e berth_lost_hosts=%s goes back to them and "
        "discards what the guest has written since" % (source, destination)
    )


def confirm_with_lost_source(source: str, destination: str) -> str:
    """The source is lost and the instance runs on the destination."""
    return (
        "berth.kvm.confirm_resize -e berth_lost_hosts=%s ends the move on %s, where the instance is; there is no way back "
        "without %s" % (source, destination, source)
    )


def end_it(name: str, playbook: str) -> str:
    """A run that made, started, stopped or removed the instance has not ended, or was interrupted."""
    return "If no run is working on it any more, run berth.kvm.%s --limit %s: it finishes what was begun" % (
        playbook,
        name,
    )


def create_again_when_back(host: str) -> str:
    """A host fell silent while it built an instance."""
    return "Run berth.kvm.create again when %s answers: it finishes the build or cleans up there" % host


def end_confirm(name: str) -> str:
    """A run that confirmed the move of an instance was interrupted. There is no way back any more."""
    return "Run berth.kvm.confirm_resize for %s again: its confirm was interrupted" % name


def resize_on_its_host(host: str) -> str:
    """No other host takes the new flavor, and the host of the instance would."""
    return "stay on %s (-e berth_allow_resize_to_same_host=true)" % host


def resize_to_follow(name: str) -> str:
    """The inventory gives an instance another flavor than it has."""
    return "Run berth.kvm.resize --limit %s" % name


def name_target_instead() -> str:
    """-e gives a move hosts that count where an instance is made."""
    return "Leave it out, and name the host to move to with -e berth_target_host=HOST"


def resize_instead() -> str:
    """-e gives a flavor to a move that gives none."""
    return "To give another flavor, run berth.kvm.resize with it instead"


def run_on_kvm_host() -> str:
    """A module of KVM hosts is in a task for an instance."""
    return "Name the KVM host that has the instance in delegate_to of the task, or as hosts of the play"


def create_to_filter(name: str) -> str:
    """The inventory gives an instance other security groups than its host filters for it."""
    return "Run berth.kvm.create --limit %s" % name


def leave_host_out(of_hosts: bool) -> str:
    """-e names a KVM host, and the playbook does not read that. ``of_hosts``: it is about KVM hosts."""
    if of_hosts:
        return "--limit selects KVM hosts here"
    return "Leave it out: a move goes to berth_target_host, and what is not moved stays on its host"


def no_start_at_task() -> str:
    """--start-at-task has the task left out that asks the hosts."""
    return "Leave that option out: a run that ended early goes on from there when it is run again"


def select_where(part: str, value: str) -> str:
    """-e gives what an instance is to be, where people mean those that are so."""
    return "Those that have it are selected with -e \"berth_where=%s=='%s'\"" % (part, visible(value))


def no_tags() -> str:
    """--tags or --skip-tags select none of our tasks."""
    return "Its playbooks have no tags: leave these options out, or tag what imports them in a playbook of your own"


def name_the_counted() -> str:
    """berth_count is given, and berth_name is not."""
    return "Give the name too: -e berth_name=web stands for web-1, web-2 and so on"


def select_several() -> str:
    """berth_name is given several names, or a pattern."""
    return (
        "Leave berth_name out and select several instances with --limit, such as --limit 'web1:web2' or --limit 'web*'"
    )


def quote_value() -> str:
    """-e has words without name=value."""
    return (
        "Quote a value that has spaces, as in -e 'name=\"a b\"'. %s. Several instances are selected with --limit"
        % input_hints.list_with_e()
    )


def name_group_of_hosts(group: Optional[str]) -> str:
    """The inventory has no KVM hosts; ``group`` has a name that is similar to that of their group."""
    if group:
        return "If the hosts of group %s are the KVM hosts, pass -e berth_kvm_hosts=%s or call the group kvm_hosts" % (
            group,
            group,
        )
    return "Put the KVM hosts into the group kvm_hosts"


def name_of_no_host(name: str) -> str:
    """An instance has the name of a KVM host, or a KVM host has berth_flavor."""
    return (
        "Give the instance another name, or take it out of the KVM hosts (group kvm_hosts); if %s is not an instance, remove "
        "berth_flavor from it" % name
    )


def name_of_no_group() -> str:
    """An instance has the name of a group, or one that Ansible reserves."""
    return "Give the instance a name of its own; --limit selects a group"


def select_in_one_place() -> str:
    """--limit leaves nothing of the instances that a variable names."""
    return "Leave --limit out, or name the instances with --limit alone"


def give_inventory() -> str:
    """Ansible has no inventory: none was given, or it could not read it."""
    return "%s, and pass the inventory with -i FILE. If you did, Ansible says above why it could not read it" % (
        name_group_of_hosts(None)
    )
