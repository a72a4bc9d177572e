#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The unit tests of the edge to Ansible on each ansible-core that the collection knows:   tests/matrix.sh [2.19 ...]
# Each version has a virtual environment of its own, .cache/matrix/VERSION, made where it is missing; its log is beside it.
# Pythons come from pyenv, or are python3.11 to python3.13 of the PATH. One without libvirt's binding, as PyPI gives it.
# MATRIX_TESTS names other tests than these. A test holds this list to that of plugin_utils/delegates.py.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

pythons="2.19=3.11 2.20=3.12 2.21=3.13 2.22=3.13" # ansible-core=Python; the newest may be a pre-release
tests=${MATRIX_TESTS:-tests/unit/test_architecture.py tests/unit/test_reply_architecture.py tests/unit/replies
    tests/unit/plugins/action tests/unit/plugins/plugin_utils tests/unit/plugins/inventory tests/unit/plugins/filter}
work=.cache/matrix
mkdir -p "$work"
export PYTHONDONTWRITEBYTECODE=1 ANSIBLE_COLLECTIONS_PATH=$PWD/.cache/collections PIP_DISABLE_PIP_VERSION_CHECK=1

python_of() { # python_of 3.12: pyenv's newest, else the system's
    local found
    found=$(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -maxdepth 1 -name "$1.*" 2>/dev/null | sort -V | tail -1)
    if [ -n "$found" ]; then echo "$found/bin/python"; else command -v "python$1"; fi
}

make_venv() { # make_venv 2.20 3.12: with the newest release, or pre-release where there is none
    local venv=$work/$1 python
    [ -e "$venv/complete" ] && return
    python=$(python_of "$2") || { echo "no Python $2"; return 1; }
    rm -rf "$venv"
    "$python" -m venv "$venv" &&
        { "$venv/bin/pip" install -q "ansible-core~=$1.0" || "$venv/bin/pip" install -q --pre "ansible-core~=$1.0b0"; } &&
        "$venv/bin/pip" install -q 'netaddr>=1,<2' 'jmespath>=1,<2' 'pytest>=8,<10' 'pytest-xdist>=3.5,<4' 'hypothesis>=6.100,<7' &&
        touch "$venv/complete"
}

failed=0
for pair in $pythons; do
    version=${pair%=*} log=$work/${pair%=*}.log
    [ $# = 0 ] || [[ " $* " == *" $version "* ]] || continue
    make_venv "$version" "${pair#*=}" >"$log" 2>&1
    # shellcheck disable=SC2086
    if [ -e "$work/$version/complete" ] &&
        PATH=$PWD/$work/$version/bin:$PATH "$work/$version/bin/python" -m pytest -q -p no:cacheprovider -n 2 $tests >>"$log" 2>&1; then
        verdict=PASS
    else
        verdict=FAIL failed=$((failed + 1))
        grep -E '^(FAILED|ERROR)|no Python' "$log"
    fi
    printf '%s  %-10s Python %s  %s\n' "$verdict" \
        "$("$work/$version/bin/python" -c 'import ansible.release as r; print(r.__version__)' 2>/dev/null || echo "$version")" \
        "${pair#*=}" "$(tail -n 1 "$log")"
done
[ "$failed" = 0 ]
