# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ansible-test runs to put pip into an empty virtual environment: here it comes from Python itself.

ansible-test would fetch a script from a host of its own for this. This one needs the package index only: it takes the
pip that Python carries (ensurepip) and lets that install the requirements given as arguments.
"""

from __future__ import annotations

import subprocess
import sys

# Options of the script this one stands for, which pip itself does not know.
NOT_FOR_PIP = ("--no-setuptools", "--no-wheel")


def main(arguments):
    subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
    wanted = [argument for argument in arguments if argument not in NOT_FOR_PIP]
    subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
