# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent to a host for a module of ours: its arguments and the digest of its code, which the host has kept.

Only if the host lacks the code, it is sent as well, in a second attempt. Ansible's wrapper ends with
``_ansiballz_main(..., zip_data='...')``: a call of ``kept_zip``, from module_utils/compute/kept_code.py, replaces that
text. All else stays as Ansible made it, and a wrapper that looks different is sent unchanged. An Ansible that packs modules in
another way than these versions do (USED) sends them whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import re
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Tuple

from ansible import constants
from ansible.plugins.loader import module_utils_loader
from ansible.release import __version__ as VERSION

try:
    from ansible.executor import module_common
except ImportError:  # of a version that nobody knows yet
    module_common = None  # type: ignore[assignment]

USED = ("recursive_finder", "_get_module_metadata", "_compile_module_ast", "_MODULE_UTILS_PATH")
_SOURCE = Path(__file__).parents[1] / "module_utils" / "compute" / "kept_code.py"
# Ansible's wrapper already has the line with __future__, where Python wants it.
KEPT_CODE = _SOURCE.read_bytes().partition(b"from __future__ import annotations\n")[2]
CALL = b'\nif __name__ == "__main__":\n    _ansiballz_main(\n'
ZIP = re.compile(rb"^zip_data='([A-Za-z0-9+/=]+)',$", re.MULTILINE)
PLAIN = b"\nextensions={},\n"  # neither debugger nor coverage, which need the files unchanged


class Sending:
    """One run of a module on a host."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._digest: str | None = None
        self._with_code = False

    def made(self, make: Callable[[], Tuple[Any, str]], check_mode: bool) -> Tuple[Any, str]:
        """What ``make()`` has Ansible build, as it is sent, and the module's path. In check mode hosts keep nothing."""
        if constants.DEFAULT_KEEP_REMOTE_FILES or not packs_as_known():
            return make()
        if not self._with_code:
            with _wrapper_alone():
                built, path = make()
            self._digest = of_module(self._module, KEPT_CODE)
            sent = self.form(built, not check_mode)
            if sent:
                return sent, path
            self._digest = None  # so that form() leaves unchanged what Ansible packs now
        with _packed_below(of_files().hex()):
            built, path = make()
        # If a file has changed since the digest was made, the host would keep different code under that digest.
        same = read_files() == of_files()
        return self.form(built, same and not check_mode) or built, path

    def form(self, built: Any, may_keep: bool) -> Optional[Any]:
        """The wrapper as it is sent; None if it is of another kind."""
        text = getattr(built, "b_module_data", b"")
        zips = ZIP.findall(text)
        if not self._digest or len(zips) != 1 or text.count(CALL) != 1 or PLAIN not in text:
            return None
        given = "%r, %r" % (self._digest, may_keep)
        if self._with_code:
            given += ", %r" % zips[0].decode()
        text = ZIP.sub(lambda _found: b"zip_data=kept_zip(%s)," % given.encode(), text)
        return dataclasses.replace(built, b_module_data=text.replace(CALL, KEPT_CODE + b"\n" + CALL))

    def has_to_have_code(self, reply: Any) -> bool:
        """Whether the host says that it lacks the code. It is believed only once."""
        if self._with_code or not self._digest or reply.get("missing_code") != self._digest:
            return False
        self._with_code = True
        return True


def packs_as_known() -> bool:
    return all(hasattr(module_common, part) for part in USED)


@contextlib.contextmanager
def _packed_below(name: str) -> Iterator[None]:
    """Within it, Ansible keeps what it packs in a folder of that name, for the rest of the run."""
    folder = constants.DEFAULT_LOCAL_TMP
    constants.DEFAULT_LOCAL_TMP = os.path.join(folder, name)
    try:
        yield
    finally:
        constants.DEFAULT_LOCAL_TMP = folder


@contextlib.contextmanager
def _wrapper_alone() -> Iterator[None]:
    """Within it, Ansible packs only the module's own file and does not look for its imports."""
    find = module_common.recursive_finder
    module_common.recursive_finder = lambda name, _full_name, code, *_others: module_common._get_module_metadata(
        module_common._compile_module_ast(name, code)
    )
    try:
        with _packed_below("wrappers"):
            yield
    finally:
        module_common.recursive_finder = find


# The digest by which a host knows our modules' code. Ansible packs a module in half a second of CPU, this takes 30 ms.
#
# It covers all files that Ansible may pack, and Ansible's version, which decides what it packs: same digest, same code.

COLLECTION = Path(__file__).parents[2]
OURS = ("plugins/modules", "plugins/module_utils", "meta")


def of_module(name: str, wrapper: bytes) -> str:
    """The digest of all code with which a host runs the module. ``wrapper``: what is sent besides it."""
    return hashlib.sha256(b"%s\0%s\0" % (name.encode(), of_files()) + wrapper).hexdigest()


@functools.lru_cache(maxsize=1)
def of_files() -> bytes:
    """The digest of the files when a process first asks; the processes that it forks for a task share it."""
    return read_files()


def read_files() -> bytes:
    """The digest of the files as they are now."""
    made = hashlib.sha256(VERSION.encode())
    for folder in _folders():
        made.update(b"\0\0")
        for path in _files(folder):
            content = _content(path)
            made.update(b"\0%s\0%d\0" % (str(path.relative_to(folder)).encode(), len(content)) + content)
    return made.digest()


def _folders() -> list[Path]:
    """Include Ansible's own folders of module_utils: an installation may have more of them."""
    theirs = [*module_utils_loader._get_paths(subdirs=False), module_common._MODULE_UTILS_PATH]
    return [*(COLLECTION / folder for folder in OURS), *dict.fromkeys(Path(path).resolve() for path in theirs)]


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".yml"))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # a folder, or a file that Ansible could not pack either
        return b""
