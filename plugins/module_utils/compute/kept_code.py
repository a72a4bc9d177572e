# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches the compiled code of our modules on a host, so that it is neither sent nor compiled in each run.

The text of this file goes to the host in front of Ansible's wrapper, see plugin_utils/sent_code.py. If anything is
wrong with the cache, the module runs from the code that is sent.
"""

from __future__ import annotations

import os
import sys

DIRECTORY = "/var/cache/berth"
MOST_FILES, MOST_BYTES = 64, 64 << 20
NO_FILES = "UEsFBg" + "A" * 24 + "=="  # the end of a zip
DAY = 86400  # s; a file is marked as used at most once in that time


def kept_zip(digest, may_keep, sent=None):
    """Return the zip of a module, in base64 as Ansible's wrapper needs it: an empty one if the code is kept here, from where
    Python then imports it. If it is neither kept here nor sent, report that and end the run before anything of the module has run."""
    _forget_the_folder()
    importer = _importer(_read(_name_of(digest), may_keep))
    if not importer and sent is None:
        import json

        sys.stdout.write(json.dumps({"missing_code": digest}) + "\n")
        raise SystemExit(0)
    if not importer and may_keep:
        importer = _importer(_keep(_name_of(digest), sent))
    if not importer:
        return sent
    sys.meta_path.insert(0, importer)
    return NO_FILES


def _importer(code):
    """What imports the kept code; None if there is none, or it is no code, such as after a fault of the disk."""
    try:
        return Importer(code) if code else None
    except Exception:  # pylint: disable=broad-exception-caught  # marshal raises anything for what it did not write
        return None


class Importer:
    """Imports the kept modules, before Python looks for them anywhere else."""

    def __init__(self, kept):
        import marshal
        from importlib.machinery import ModuleSpec

        self._load, self._spec = marshal.loads, ModuleSpec
        self._modules = marshal.loads(kept)
        for name, (file, is_package, code) in self._modules.items():
            if not (name and file and code and is_package in (True, False)):
                raise ValueError(name)

    def find_spec(self, name, _path=None, _target=None):
        if name not in self._modules:
            return None
        file, is_package, _code = self._modules[name]
        spec = self._spec(name, self, origin=file, is_package=is_package)
        spec.has_location = True
        return spec

    def create_module(self, _spec):
        """Let Python create the module."""

    def exec_module(self, module):
        exec(self.get_code(module.__spec__.name), module.__dict__)

    def get_code(self, name):
        return self._load(self._modules[name][2])


def _forget_the_folder():
    """Remove the script's directory and the current one from the import path: another user may own them, and this may
    run as root. Ansible's wrapper does the same later."""
    here = {"", "."}
    try:
        here.add(os.path.dirname(os.path.realpath(sys.modules["__main__"].__file__)))
    except (AttributeError, OSError):  # it came by standard input
        pass
    sys.path = [path for path in sys.path if path not in here]


def _name_of(digest):
    """The file name contains the Python version, because each Python compiles for itself."""
    from importlib.util import MAGIC_NUMBER

    return "%s-%s-%s-%d" % (digest, sys.implementation.cache_tag, MAGIC_NUMBER.hex(), sys.flags.optimize)


def _folder():
    """Return a descriptor of the directory. Raise OSError if it does not exist, or others may write to it."""
    folder = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_owner(folder)
    except OSError:
        os.close(folder)
        raise
    return folder


def _check_owner(descriptor):
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise OSError("others may write there")


def _digest(name, code):
    import hashlib

    made = hashlib.sha256(name.encode() + b"\n")
    made.update(code)
    return made.digest()


def _read(name, may_touch):
    """Return the kept code, or None unless it is complete and only this user could write it."""
    import stat
    import time

    try:
        folder = _folder()
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(file, "rb") as opened:
            _check_owner(file)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                return None
            digest, code = opened.read(32), opened.read()
            if digest != _digest(name, code):
                return None
            if may_touch and abs(time.time() - found.st_mtime) > DAY:
                os.utime(file)
            return code
    except OSError:
        return None


def _keep(name, sent):
    """Compile and keep the code. Return it, or None if it cannot be kept."""
    try:
        if not os.path.lexists(DIRECTORY):
            os.mkdir(DIRECTORY, 0o700)
        folder = _folder()
        try:
            code = _compiled(sent)
            _write(folder, name, _digest(name, code) + code)
            _prune(folder)
        finally:
            os.close(folder)
        return code
    except Exception:  # pylint: disable=broad-exception-caught  # a problem of the cache is no error of the module
        return None


def _compiled(sent):
    """Return {module: (file, whether it is a package, its compiled code)}. A traceback still names file and line."""
    import base64
    import io
    import marshal
    import zipfile

    modules = {}
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(sent))) as sources:
        for path in sources.namelist():
            file, is_package = DIRECTORY + "/" + path, path.endswith("/__init__.py")
            name = path[: -len("/__init__.py" if is_package else ".py")].replace("/", ".")
            code = compile(sources.read(path), file, "exec", dont_inherit=True)
            modules[name] = (file, is_package, marshal.dumps(code))
    return marshal.dumps(modules)


def _write(folder, name, content):
    """Write all of it or nothing, even if the host loses power."""
    fresh = ".new-" + os.urandom(8).hex()
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(fresh, dir_fd=folder)
        raise


def _prune(folder):
    """Remove the files that were not used for the longest time, beyond MOST_FILES or MOST_BYTES."""
    import time

    now, found = time.time(), []
    for name in os.listdir(folder):
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        # a time in the future comes from a wrong clock
        found.append((state.st_mtime if state.st_mtime <= now + DAY else 0, state.st_size, name))
    size = 0
    for at, (_used, bytes_, name) in enumerate(sorted(found, reverse=True)):
        size += bytes_
        if at >= MOST_FILES or size > MOST_BYTES:
            os.unlink(name, dir_fd=folder)
