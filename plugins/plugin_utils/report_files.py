# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a report: a page and its data beside it. They never replace other files, and no link is followed."""

from __future__ import annotations

import os
import stat
from typing import Any, Optional

from ..module_utils.model.errors import InvalidInput
from . import state_directory
from .documents import write_document, write_private

VARIABLE = "berth_report_page"
ABOUT = "berth.kvm.report"  # near the beginning of both files
FOLDER, ENDING = "report", ".html"


def page_path(value: Optional[str]) -> str:
    """The full path of the page to write. Raises InvalidInput, before anything is written, if it must not be."""
    path = os.path.abspath(value or _default())
    if not path.endswith(ENDING) or os.path.basename(path) == ENDING:
        raise InvalidInput(VARIABLE, value, "a file name that ends in .html")
    for file in (path, data_path(path)):
        _check_replaceable(file)
    return path


def data_path(page: str) -> str:
    return page[: -len(ENDING)] + ".json"


def write_report(page: str, html: str, document: Any) -> None:
    """Write both files, each completely or not at all, readable by their owner only."""
    try:
        if page == _default():
            with state_directory.opened(FOLDER, make=True):
                pass
        write_document(data_path(page), document)
        write_private(page, html.encode("utf-8"))
    except OSError as error:
        rule = "a file in a directory that one may write to: %s" % error.strerror
        raise InvalidInput(VARIABLE, page, rule) from None


def _default() -> str:
    return state_directory.path_of(FOLDER, "fleet" + ENDING)


def _check_replaceable(path: str) -> None:
    """Refuse an existing file that is neither an earlier report nor empty."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidInput(VARIABLE, path, "a file that is no link and can be read: %s" % error.strerror) from None
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
        head = os.read(fd, 1000) if regular else b""
    finally:
        os.close(fd)
    if not regular or (head and ABOUT.encode() not in head):
        raise InvalidInput(VARIABLE, path, "a new file or an earlier report: the existing file is neither")
