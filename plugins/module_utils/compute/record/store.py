# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of one host and the only primitive that changes them: compare, then replace durably.

Layout below the state directory (0700): host.lock, tombstones.json, instances/<uuid>/{lock,record.json} (0600). Reads
need no lock, since a record is replaced by a rename. Lock order: a run that holds the host's lock takes an instance's
lock without waiting, so two runs never wait for each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from typing import Dict, List, Optional, Tuple

from ...model import lifecycle, state_hints
from ...model.errors import InvalidInput
from ...model.identity import is_uuid
from ...model.lifecycle import IN, KEEP, OUT, OWN
from ...model.record import Record, RecordInvalid
from ...model.safe_text import clean
from .. import durable, lock
from ..errors import HostBusy, InstanceBusy, StaleRecord
from . import deleted, state_directory, state_file, whereabouts

# The checksum in the file of a record, over the canonical JSON of all else: a bit that changed on the disk is no other
# size.
#
# It names the generation that it is of. A version that does not know it keeps it as it is, so of a record that such a
# version wrote it says nothing. A record without one is from an older version.
KEY = "checksum"


def canonical(data):
    return json.dumps(data, sort_keys=True, allow_nan=False).encode("utf-8")


def with_checksum(data):
    """Return the parts of a record with their checksum."""
    return {**data, KEY: {"generation": data["generation"], "sha256": _digest(data)}}


def without_checksum(data):
    """Return the parts of a record without their checksum. Raise ValueError if they are not what was written."""
    if not isinstance(data, dict) or KEY not in data:
        return data
    parts = {name: part for name, part in data.items() if name != KEY}
    kept = data[KEY]
    if not isinstance(kept, dict) or set(kept) != {"generation", "sha256"}:
        raise ValueError("its checksum is none")
    if kept["sha256"] != _digest(parts) and not _is_of_another_write(kept, parts):
        raise ValueError("its checksum does not match its content: it changed on the disk, or was edited")
    return parts


def _is_of_another_write(kept, parts):
    """Whether more than the generation differs: a version that does not know the checksum wrote the record since."""
    before = {**parts, "generation": kept["generation"]}
    return parts.get("generation") != kept["generation"] and kept["sha256"] != _digest(before)


def _digest(data):
    return hashlib.sha256(canonical(data)).hexdigest()


STATE_DIR = "/var/lib/berth"
RECORD = "record.json"
LOCK = "lock"
TOMBSTONES = "tombstones.json"
TOMBSTONE_LIMIT = 1000
HOST_TIMEOUT = 60
INSTANCE_TIMEOUT = 60


def check_uuid(value):
    """Return a uuid if it has the plain form. It becomes a directory name, so anything else is refused."""
    if not is_uuid(value):
        raise InvalidInput("uuid", value, "a uuid in lower case, as in 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a")
    return value


def _decode(data, uuid, path, hint=state_hints.restore_damaged_record):
    def damaged(message, other=None):
        where = " (%s on %s)" % (path, os.uname().nodename)
        return RecordInvalid(clean(message, 400) + where, hint=other or hint(uuid), uuid=uuid, path=path)

    try:
        record = Record.from_dict(without_checksum(_DECODER.decode(data.decode("utf-8"))))
    except (ValueError, RecursionError) as error:
        raise damaged("the record of %s is damaged: %s" % (uuid, error))
    except RecordInvalid as error:
        raise damaged("%s: %s" % (uuid, error.message), error.hint)
    if record.uuid != uuid:
        raise damaged("the record below %s is that of %s" % (uuid, record.uuid))
    return record


def _number(text):
    """Refuse NaN and numbers beyond all floats: they are not JSON, and _encode could not write them again."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("%s is no number" % text)
    return value


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_number)


def _encode(record):
    return canonical(with_checksum(record.to_dict()))


class Store:
    """The records below one state directory. Not for use by several threads."""

    below = "instances"
    damaged_hint = staticmethod(state_hints.restore_damaged_record)
    check_change = staticmethod(lifecycle.check_change)

    def __init__(self, state_dir=STATE_DIR, action="berth", identity_copy=None):
        self.state_dir = state_dir
        # a state directory elsewhere has its copy of the identity beside it
        self.identity_copy = identity_copy or (state_directory.COPY if state_dir == STATE_DIR else state_dir + ".json")
        self.action = action
        self._held = {}

    # locks

    @contextlib.contextmanager
    def host_lock(self, timeout=HOST_TIMEOUT):
        """Hold the lock under which capacity and group policy are decided. Raise HostBusy after ``timeout`` seconds."""

        def busy(who):
            return HostBusy("the host is locked by %s" % who, holder=who)

        with self._hold(None, self._open_state, "host.lock", timeout, busy):
            yield

    @contextlib.contextmanager
    def instance_lock(self, uuid, timeout=INSTANCE_TIMEOUT):
        """Hold the lock of one instance; may be nested. Raise InstanceBusy after ``timeout`` seconds."""
        check_uuid(uuid)

        def busy(who):
            return InstanceBusy("instance %s is locked by %s" % (uuid, who), holder=who, uuid=uuid)

        with self._hold(uuid, lambda: self._open_instance(uuid), LOCK, timeout, busy):
            yield

    @contextlib.contextmanager
    def _hold(self, key, open_directory, name, timeout, busy):
        if key in self._held:
            yield
            return
        directory_fd, fd = lock.acquire(open_directory, name, timeout, self.action, busy)
        self._held[key] = directory_fd
        try:
            yield
        finally:
            del self._held[key]
            try:
                if key is not None:
                    self._tidy(key, directory_fd)
            finally:
                os.close(fd)
                os.close(directory_fd)

    def _tidy(self, uuid, directory_fd):
        """Remove a directory that has become empty. The caller holds the instance's lock."""
        if RECORD in os.listdir(directory_fd):
            return
        durable.discard_temporary(directory_fd, RECORD)
        if os.listdir(directory_fd) != [LOCK]:
            return
        os.unlink(LOCK, dir_fd=directory_fd)
        parent = self._open_instances()
        try:
            os.rmdir(uuid, dir_fd=parent)
        except OSError:
            pass  # another run made its lock file there in the meantime
        finally:
            os.close(parent)

    # reading

    def read(self, uuid) -> Optional[Record]:
        """Return the instance's record, or None. Raise RecordInvalid if it is damaged or has a newer schema."""
        check_uuid(uuid)
        try:
            instances = self._open_instances(create=False)
        except FileNotFoundError:
            return None
        try:
            return self._read_in(instances, uuid)
        finally:
            os.close(instances)

    def has(self, uuid) -> bool:
        """Whether there is a record, though it may be damaged."""
        try:
            return self.read(uuid) is not None
        except RecordInvalid:
            return True

    def _read_in(self, instances, uuid):
        try:
            directory_fd = durable.open_directory(uuid, create=False, dir_fd=instances)
        except FileNotFoundError:
            return None
        try:
            data = durable.read(directory_fd, RECORD)
        finally:
            os.close(directory_fd)
        path = os.path.join(self.state_dir, self.below, uuid, RECORD)
        return None if data is None else _decode(data, uuid, path, self.damaged_hint)

    def records(self) -> List[Record]:
        """Return all records of the host, by uuid. Raise if one cannot be read: unknown is never taken for absent."""
        sound, damaged = self.sound_and_damaged()
        for error in damaged.values():
            raise error
        return sound

    def sound(self) -> List[Record]:
        """Return the records that can be read: for what is done to each instance by itself, and decides about no other."""
        return self.sound_and_damaged()[0]

    def sound_and_damaged(self) -> Tuple[List[Record], Dict[str, RecordInvalid]]:
        """Return (the records that can be read, by uuid; {uuid: why one cannot be read})."""
        try:
            instances = self._open_instances(create=False)
        except FileNotFoundError:
            return [], {}
        sound, damaged = [], {}
        try:
            for uuid in filter(is_uuid, sorted(os.listdir(instances))):
                try:
                    record = self._read_in(instances, uuid)
                except RecordInvalid as error:
                    damaged[uuid] = error
                    continue
                sound += [] if record is None else [record]
        finally:
            os.close(instances)
        return sound, damaged

    # writing

    def compare_and_swap(self, expected: Optional[Record], new: Optional[Record]) -> Optional[Record]:
        """Replace ``expected`` (None: no record) by ``new`` (None: remove it). Return what was read back.

        Raise StaleRecord and change nothing if role, generation and token on disk are not those of ``expected``. The
        generation of ``new`` must be greater, so that no two states of a record ever compare equal.
        """
        if expected is None and new is None:
            raise ValueError("nothing to compare and nothing to write")
        uuid = (expected or new).uuid
        if expected and new:
            if new.uuid != uuid:
                raise RecordInvalid("a record of %s cannot become one of %s" % (uuid, new.uuid))
            if list(new.generation) <= list(expected.generation):
                raise RecordInvalid(
                    "the generation of %s would not grow: %s, then %s" % (uuid, expected.generation, new.generation)
                )
        with self.instance_lock(uuid):
            current = self.read(uuid)
            if (current and current.version()) != (expected and expected.version()):
                raise StaleRecord(
                    "the record of %s changed meanwhile" % uuid,
                    uuid=uuid,
                    expected=_describe(expected),
                    found=_describe(current),
                )
            self.check_change(current and current.state(), new and new.state())
            directory_fd = self._held[uuid]
            if is_owner(expected) != is_owner(new):
                state_directory.advance(self)
            if new is None:
                self._note_departure(expected)
                durable.remove(directory_fd, RECORD)
                return None
            return self._write(new)

    def restore(self, record: Record) -> Record:
        """Write the lost record of an instance at rest, or that of an adopted guest: the only way to own an instance that was
        not claimed."""
        with self.instance_lock(record.uuid):
            if self.read(record.uuid) is not None:
                raise StaleRecord("there is a record of %s" % record.uuid, uuid=record.uuid)
            state_directory.advance(self)
            return self._write(record)

    def give_back(self, record: Record) -> None:
        """Remove the record of an instance at rest whose guest goes on without one: the only way to end an instance that is
        not deleted."""
        with self.instance_lock(record.uuid):
            current = self.read(record.uuid)
            if current is None or current.version() != record.version():
                raise StaleRecord("the record of %s changed meanwhile" % record.uuid, uuid=record.uuid)
            state_directory.advance(self)
            self._note_departure(record)
            durable.remove(self._held[record.uuid], RECORD)

    def _write(self, record):
        """Write the record and read it back. The caller holds the instance's lock."""
        record.check_counts()
        durable.write(self._held[record.uuid], RECORD, _encode(record))
        written = self.read(record.uuid)
        if written != Record.from_dict(json.loads(canonical(record.to_dict()))):
            raise RecordInvalid("the record of %s does not read back as it was written" % record.uuid, uuid=record.uuid)
        return written

    def latest_epoch(self, uuid):
        return whereabouts.epoch(self, uuid)

    def _note_departure(self, record):
        """Note what a later run must know of an instance that was here, even if the host that has it now is silent."""
        if record.role == OWN:
            deleted.keep(self, record)
            whereabouts.removed(self, record.uuid, record.generation)
        elif record.role in (IN, OUT) and record.migration:
            side = "destination" if (record.role, record.phase) == (OUT, KEEP) else "source"
            whereabouts.handed_over(self, record, record.migration[side])

    # operations that must never come back

    def bury(self, op):
        """Remember that an operation (or a claim's token) was withdrawn: a run that uses it later is refused."""
        with self.host_lock():
            dead = [buried for buried in self._tombstones() if buried != op] + [op]
            durable.write(self._held[None], TOMBSTONES, json.dumps(dead[-TOMBSTONE_LIMIT:]).encode())

    def is_buried(self, op):
        return op in self._tombstones()

    def _tombstones(self):
        return state_file.read(self.state_dir, TOMBSTONES, lambda data: state_file.list_of(data, state_file.text), [])

    # directories

    def _open_state(self):
        return durable.open_directory(self.state_dir, create=True)

    def _open_instances(self, create=True):
        state = self._open_state() if create else durable.open_directory(self.state_dir)
        try:
            return durable.open_directory(self.below, create=create, dir_fd=state)
        finally:
            os.close(state)

    def _open_instance(self, uuid):
        instances = self._open_instances()
        try:
            return durable.open_directory(uuid, create=True, dir_fd=instances)
        finally:
            os.close(instances)


def is_owner(record):
    return record is not None and record.role == OWN


def _describe(record):
    return (
        None if record is None else {"role": record.role, "generation": list(record.generation), "phase": record.phase}
    )
