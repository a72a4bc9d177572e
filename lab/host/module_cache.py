# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loaded by every Python of a lab host: what a zip file holds is compiled once.

Ansible sends a module as a zip of sources, which Python compiles anew in each run: two thirds of a run's CPU time. The
code that runs is the same; only a traceback may name the zip of an earlier run.
"""

import _imp
import marshal
import os
import zipimport

DIRECTORY = "/var/cache/berth-lab"
compile_source = zipimport._compile_source


def cached(path, source):
    name = "%s/%s" % (DIRECTORY, _imp.source_hash(0, bytes(source)).hex())
    try:
        with open(name, "rb") as file:
            return marshal.loads(file.read())
    except (OSError, ValueError, EOFError):
        code = compile_source(path, source)
        keep(name, code)
        return code


def keep(name, code):
    fresh = "%s.%d" % (name, os.getpid())
    try:
        with open(fresh, "wb") as file:
            file.write(marshal.dumps(code))
        os.replace(fresh, name)
    except OSError:  # not root: it goes without
        return


zipimport._compile_source = cached
