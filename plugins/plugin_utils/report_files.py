# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a report: a page and its data beside it. They never replace other files, and no link is followed."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Optional

from ..module_utils.model.errors import InvalidInput
from . import state_directory
from .documents import check_replaceable, write_document, write_private

VARIABLE = "berth_report_page"
ABOUT = "berth.kvm.report"  # near the beginning of both files
FOLDER, ENDING = "report", ".html"


def page_path(value: Optional[str]) -> str:
    """The full path of the page to write. Raises InvalidInput, before anything is written, if it must not be."""
    path = os.path.abspath(value or _default())
    if not path.endswith(ENDING) or os.path.basename(path) == ENDING:
        raise InvalidInput(VARIABLE, value, "a file name that ends in .html")
    for file in (path, data_path(path)):
        check_replaceable(
            file, VARIABLE, file, _is_report, "a new file or an earlier report: the existing file is neither"
        )
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


def _is_report(file: BinaryIO) -> bool:
    return ABOUT.encode() in file.read(1000)
