# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the user's input: certificates, variables, images. See hints.py."""

from __future__ import annotations

import re
from typing import Sequence

from .errors import shortened

# --- certificates


def name_migration_address(host: str, address: str) -> str:
    """A host reports an address that is not in the inventory, so no certificate contains it."""
    return (
        "If %s really is an address of %s, set berth_host_migration_address to it for that host and run the playbook "
        "berth.kvm.prepare_hosts" % (address, host)
    )


def keep_foreign_certificates() -> str:
    """The host trusts another authority."""
    return (
        "If another controller prepared the host, copy that controller's berth_ca_directory to this one, or take it "
        "from a backup. If the certificates are of a PKI of your own, set berth_host_certificates to false, which keeps them"
    )


def bring_authority_key_back(file: str) -> str:
    """The authority's key is missing, or damaged as its certificate may be."""
    return "Restore %s from a backup" % file


def keep_authority() -> str:
    """A certificate authority was made."""
    return "Keep that directory, and a copy of it: a host that is added later needs the same authority"


def private_files() -> str:
    """The authority's directory is open to others."""
    return "Give it to the user who runs Ansible: mode 0700 for the directory, 0600 for the keys"


# --- variables


def approve_again() -> str:
    """create would do something else than berth_approved says."""
    return "Run the playbook berth.kvm.place again with the same selection, and get its result approved"


def list_own_variables(variable: str) -> str:
    """A variable berth_... is unknown; it may be the user's own."""
    return "If it is a variable of your own, add its name to the list %s" % variable


def set_where_it_counts(variable: str, owners: str) -> str:
    """An instance has a variable that is for KVM hosts (``owners``), or one of these has one of an instance."""
    return "Set %s for the %s that it is meant for, in their group or their host_vars, and remove it here" % (
        variable,
        owners,
    )


def public_key() -> str:
    """A private key, or a path, is given as a public key."""
    return "Give the .pub file's content, such as {{ lookup('file', '~/.ssh/id_ed25519.pub') }}"


def give_way_in() -> str:
    """An instance has neither a key nor a password nor user data."""
    return "Set berth_ssh_keys, berth_key_names, berth_admin_password_hash or berth_user_data before it is created"


def give_network() -> str:
    """An instance has no NIC."""
    return "If that is not meant, set berth_networks before it is created"


def plain_name() -> str:
    """A name that cannot be the host name of a guest."""
    return "Use a host name of small letters, digits and -, such as web-1 or web-1.example.org"


def install_collection() -> str:
    """A template uses a plugin that the controller does not have."""
    return "Correct its name, or install its collection on the controller: ansible-galaxy collection install NAMESPACE.NAME"


def remove_quotes() -> str:
    """A number was given as text."""
    return (
        "Remove the quotes; what a template or Ansible Vault gives becomes a number with the filter int, and what -e gives if it "
        "is written as JSON: -e '{\"NAME\": 8}'"
    )


def add_quotes() -> str:
    """YAML made a number or a truth value of what is meant as text."""
    return "Write it in quotes"


def where_in_playbooks() -> str:
    """A query is given where nothing evaluates it, such as in a play of somebody's own."""
    return "Nothing was changed. Leave it out here; a play of your own selects with its hosts and --limit"


def enable_filter(name: str) -> str:
    """The filter that reads a scheduler hint is not enabled."""
    return (
        "Add %s to enabled_filters of berth_placement. That list replaces the default one, so name the default "
        "filters that you want to keep, too" % name
    )


def name_instance() -> str:
    """A playbook that shows one instance got none."""
    return "Select it with -e berth_name=web1 or --limit web1"


def flavor_with_disks(old: str) -> str:
    """The new flavor has a smaller disk than the one that the instance has."""
    return "Set berth_flavor to a flavor whose disks are not smaller, or to %s, which it has" % old


def run_playbook() -> str:
    """A module that is one step of a playbook was run by itself."""
    return "Run the playbook, such as berth.kvm.create: this module is one step of it"


def true_without_quotes() -> str:
    """A truth value is text, as in an INI inventory."""
    return "Write true or false without quotes; in an INI inventory True or False, with a capital letter"


def no_structure_in_text() -> str:
    """A list or mapping is text, as in an INI inventory."""
    return (
        "It is text, not a list or mapping. In YAML it has no quotes around it. %s. An INI inventory reads only what Python "
        "does, such as ['a', 'b'] and True, not [a, b] and true: set it in a YAML file, such as group_vars/all.yml"
        % list_with_e()
    )


def mapping_with_e() -> str:
    """A mapping is given as text such as role=web."""
    return 'With -e a mapping is written as JSON: -e \'{"NAME": {"a": "b"}}\', in YAML as {a: b}'


def list_with_e() -> str:
    """A list is given as text: name=value of -e, and the answers in a survey of AWX, are text."""
    return 'With -e a list is written as JSON: -e \'{"NAME": ["a", "b"]}\', in YAML as [a, b]'


def name_each(fields: Sequence[str]) -> str:
    """One of a list of things has no name. ``fields``: what it has besides."""
    return "Write {name: NAME%s}" % "".join(", %s: ..." % field for field in fields[:2])


def less_or_more_quota() -> str:
    """A project has used its quota."""
    return "Delete what nobody needs (berth.kvm.show lists what there is), or raise the quota in berth_quotas"


def content_of_file(path: str) -> str:
    """User data is a path."""
    return "Give the content: {{ lookup('file', '%s') }}" % path


def take_cloud_image() -> str:
    """An instance or a volume is to be made from an ISO."""
    return "Take a cloud image. To install from the ISO, create the instance from an empty image, and boot the ISO by berth.kvm.rescue"


def cloud_config_first() -> str:
    """User data is neither cloud-init text nor base64."""
    return "Put #cloud-config, or #!/bin/sh, in the first line"


def user_data_is_text() -> str:
    """User data is a mapping: Ansible makes that of YAML or JSON."""
    return (
        "Write it as text after |, or {{ NAME | to_json }}; #cloud-config belongs in the first line of a cloud-config"
    )


def compile_butane() -> str:
    """User data is Butane's YAML."""
    return "Compile it, and give what butane --strict FILE prints"


def include_url() -> str:
    """User data is too long."""
    return "Let cloud-init fetch the rest with #include and a URL"


def hashed_password() -> str:
    """A password was given, or something else that is not a password hash."""
    return "Give what openssl passwd -6 or mkpasswd -m yescrypt prints"


def in_one_place(variable: str, key: str) -> str:
    """The user data has a key of its own for what a variable asks for."""
    return "Move what is under %s into %s, or leave %s out" % (key, variable, variable)


def set_variable(field: str, name: str) -> str:
    """A variable is missing."""
    return "Set %s for %s" % (field, name)


def add_field(path: str) -> str:
    """A field is missing."""
    return "Add %s" % path


def select_counted(name: str, counted: Sequence[str]) -> str:
    """No instance has the name, and those ``counted`` have it with a number, in order. berth_count selects them where none is
    missing between: a delete would fail for that one."""
    own_name = "with its own name in -e berth_name"
    if len(counted) == 1:
        return "There is %s. Select it %s" % (counted[0], own_name)
    there_are = "There are %s. Select" % shortened(list(counted))
    if re.search(r"-%d(\.|$)" % len(counted), counted[-1]):
        return "%s all with -e berth_name=%s -e berth_count=%d, or one %s" % (there_are, name, len(counted), own_name)
    return "%s each %s" % (there_are, own_name)


def give_option(variable: str, option: str) -> str:
    """A variable is given that Ansible sets from an option of the command line."""
    return "Remove %s, and give the option %s instead" % (variable, option)


def leave_out(variable: str) -> str:
    """-e has what the run finds out for each instance."""
    return "Leave %s out" % variable


def accept_fewer() -> str:
    """Of instances that are asked for together, some cannot be had."""
    return "If fewer are welcome: -e berth_min_count=NUMBER"


def give_volume() -> str:
    """No volume was named."""
    return "Name it with -e berth_volume=NAME"


def give_host(variable: str) -> str:
    """No KVM host was named. ``variable``: the one that the playbook takes it from."""
    return "Name it with -e %s=HOST" % variable


# --- images


def right_upload(path: str) -> str:
    """The file that an image is uploaded from does not match the checksum in the catalog."""
    return "Put the right file at %s, or correct upload and checksum (sha256sum FILE)" % path


def server_refuses() -> str:
    """A web server answers 401 or 403 for an image."""
    return (
        "The server may refuse programs, this address, or who has not logged in. If a browser gets the file, download it with that "
        "and give it with upload instead of url, or name another mirror"
    )


def give_vault_password() -> str:
    """A variable is encrypted, and the run has no password, or another one."""
    return "Give the password of the vault: --ask-vault-pass, or --vault-password-file FILE"


def image_directory() -> str:
    """An image's path is not below a directory that the host allows for images."""
    return (
        "Put the image below a directory that holds nothing but images, name that directory in "
        "berth_host_image_directories of every host, and run berth.kvm.prepare_hosts"
    )


def image_by_name() -> str:
    """berth_image is where an image comes from, not its name."""
    return "Give it a name in berth_images, with this as its url or upload, and write that name here"
