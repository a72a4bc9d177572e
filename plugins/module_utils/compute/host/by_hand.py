# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody changed by hand in the guests of this host: libvirt's definitions of all instances, compared with their
records, and what the kernel does with their packets.
"""

from __future__ import annotations

import contextlib
import hashlib
import json

from ...model.errors import BerthError
from ...model.lifecycle import OWN
from .. import durable
from ..connection import each, require_libvirt
from ..guest import domains, live_differences, packet_path

# The comparisons of this host that found no difference, so that what has not changed since is not parsed again.
#
# The file has a digest of each: of the rules, of what the record demands and of all that libvirt said. So what it says
# is true whenever it is read, and a file that is missing, old, cut off or not ours costs only time.
AGREED_FILE = "agreed.sha256"
LENGTH = 32  # bytes of a digest


def agreed_digest(rules, wanted, texts):
    """Return the digest of a comparison: of ``wanted`` (plain data) with ``texts``, each a text or None, by ``rules``."""
    lengths = [None if text is None else len(text) for text in texts]
    made = hashlib.sha256(json.dumps([rules, wanted, lengths]).encode("utf-8"))
    for text in texts:
        made.update((text or "").encode("utf-8"))
    return made.digest()


def read_agreed(state_dir):
    """Return the digests that are kept, a set; empty where they cannot be read."""
    try:
        data = durable.read_in(state_dir, AGREED_FILE) or b""
    except (BerthError, OSError):
        return set()
    return {data[at : at + LENGTH] for at in range(0, len(data), LENGTH)}


def keep_agreed(state_dir, digests):
    """Keep these alone. Where that is not possible, the next facts take longer."""
    with contextlib.suppress(BerthError, OSError):
        durable.write_in(state_dir, AGREED_FILE, b"".join(sorted(digests)))


def reported(records, found, undefined, state_dir, save=True, warnings=None):
    """Return {uuid: {domain_differs}}, {} for an instance in which nothing differs or about which that is not known.

    libvirt is asked for all definitions before the first is compared: alternating takes half as long again.
    """
    texts = each(lambda record: _definitions(record, found, undefined), records)
    running = [(record, text[0]) for record, text in zip(records, texts) if text and text[0] and record.role == OWN]
    in_kernel, unread = packet_path.differing(running)
    (warnings if warnings is not None else []).extend(unread)
    before, now = read_agreed(state_dir), set()
    differing = {
        record.uuid: {**_compared(record, text, before, now), packet_path.IN_KERNEL: in_kernel.get(record.uuid)}
        for record, text in zip(records, texts)
    }
    if save and now != before:
        keep_agreed(state_dir, now)
    found = {uuid: {when: wrong for when, wrong in each.items() if wrong} for uuid, each in differing.items()}
    return {uuid: {"domain_differs": differs} if differs else {} for uuid, differs in found.items()}


def _definitions(record, found, undefined):
    """Return libvirt's texts (of the running guest, of its next start), each None if missing; None if there are none."""
    domain, power_state = found.get(record.uuid, (None, None))
    library = require_libvirt()
    if domain is None or record.role != OWN:
        return None
    try:
        live = None if power_state in domains.INACTIVE else domain.XMLDesc(0)
        lasting = None if record.uuid in undefined else domain.XMLDesc(library.VIR_DOMAIN_XML_INACTIVE)
    except library.libvirtError:
        return None  # removed since it was listed
    return live, lasting


def _compared(record, definitions, before, now):
    """Return the differences. ``before``: digests of comparisons that found nothing. This one's is added to ``now`` if it
    finds nothing."""
    try:
        if definitions is None or not live_differences.is_looked_at(record):
            return {}
        wanted = live_differences.expected(record)
        digest = agreed_digest(live_differences.RULES, wanted, definitions)
        differing = {} if digest in before else live_differences.differences(wanted, *definitions)
    except live_differences.DAMAGED:
        return {}  # a damaged record, which is reported elsewhere
    if not differing:
        now.add(digest)
    return differing
