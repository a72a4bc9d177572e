# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's rename: another name for an instance that exists. Its uuid stays, and so do its files, addresses and the domain's name, which
is the uuid; the guest's own host name is its user's.

    the record -> the domain's title and mark, also of the running guest

Whatever is killed, the next run finds which of them have the name, and goes on.
"""

from __future__ import annotations

from xml.etree import ElementTree

from ...model import adopted
from ...model.identity import check_name
from ..record import journal
from ..record.claim import check_name_free
from . import domain, domain_xml

METHOD = "rename"


def rename(instance, name):
    """Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_rename(instance, name):
            return False
        record = instance.at_rest(METHOD)
        if record.name != name:
            with instance.store.host_lock():
                check_name_free(instance.store, record.uuid, name, record.project_id)
                instance.observe("rename record")
                noted = journal.noted(record, METHOD, before=record.name)
                record = instance.swap(noted.replace(name=name, spec={**record.spec, "name": name}))
        guest = domain.find(instance.host.connection, record.uuid)
        if guest is not None:  # else its next start defines it
            domain.keep_definition(instance.host.connection, guest)
            instance.observe("rename title")
            if not adopted.of(record.spec):
                domain.entitle(guest, name)
            instance.observe("rename mark")
            domain.note(guest, domain_xml.metadata(record)[0])
        return True


def would_rename(instance, name):
    record = instance.at_rest(METHOD)
    check_name(name, "new_name")
    check_name_free(instance.store, record.uuid, name, record.project_id)
    guest = domain.find(instance.host.connection, record.uuid)
    texts = [] if guest is None else [text for text in domain.definitions(guest) if text]
    return record.name != name or any(_called(record, text) != {name} for text in texts)


def _called(record, text):
    """Return the names in a definition. An adopted guest keeps the title that it was found with."""
    titles = set() if adopted.of(record.spec) else {ElementTree.fromstring(text).findtext("title")}
    return titles | {domain.mark(text).get("name")}
