#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The unit tests of the edge to Ansible on each ansible-core that the collection knows, and those of the hosts' code on the
# oldest Python of hosts:   tests/matrix.sh [2.19 ... hosts]
# Those of the hosts' code have the last ansible-core for that Python, for what modules import of it.
# Each has a virtual environment of its own, .cache/matrix/VERSION, made where it is missing; its log lies beside it.
# Pythons come from pyenv, or are python3.9 to python3.13 of the PATH. None has libvirt's binding, as on most controllers.
# --sample: the tests of what is private to Ansible alone, and a version that cannot be had here (no Python, no network) is
# passed over.
# devel, only where it is named: ansible-core of tomorrow, from its repository.
# A test holds this list to that of plugins/plugin_utils/known_ansible.py.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

pythons="2.19=3.11 2.20=3.12 2.21=3.13 2.22=3.13" # ansible-core=Python; the newest may be a pre-release
edge="tests/unit/test_architecture.py tests/unit/test_reply_architecture.py tests/unit/replies tests/unit/situations
    $(find tests/unit/plugins -mindepth 1 -maxdepth 1 -type d ! -name 'module*' ! -name '__*' | sort)"
private="tests/unit/plugins/plugin_utils/test_delegates.py tests/unit/plugins/plugin_utils/test_known_ansible.py
    tests/unit/plugins/plugin_utils/test_host_reply.py tests/unit/plugins/action/test_ask_hosts.py
    tests/unit/plugins/plugin_utils/test_sent_code.py tests/unit/plugins/plugin_utils/test_code_digest.py"
hosts="tests/unit/plugins/module_utils/compute tests/unit/plugins/module_utils/model tests/unit/plugins/modules"
work=.cache/matrix
mkdir -p "$work"
export PYTHONDONTWRITEBYTECODE=1 ANSIBLE_COLLECTIONS_PATH=$PWD/.cache/collections PIP_DISABLE_PIP_VERSION_CHECK=1

sample=
[ "${1:-}" != --sample ] || { sample=yes; shift; }

python_of() { # python_of 3.12: pyenv's newest, else the system's
    local found
    found=$(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -maxdepth 1 -name "$1.*" 2>/dev/null | sort -V | tail -1)
    if [ -n "$found" ]; then echo "$found/bin/python"; else command -v "python$1"; fi
}

ansible_of() { # ansible_of 2.20: its newest release, or pre-release where there is none
    local version=${1/hosts/2.15}
    if [ "$1" = devel ]; then
        "$work/$1/bin/pip" install -q https://github.com/ansible/ansible/archive/devel.tar.gz
        return
    fi
    "$work/$1/bin/pip" install -q "ansible-core~=$version.0" || "$work/$1/bin/pip" install -q --pre "ansible-core~=$version.0b0"
}

make_venv() { # make_venv 2.20 /usr/bin/python3.12
    local venv=$work/$1
    [ "$venv/complete" -nt requirements.txt ] && return
    rm -rf "$venv"
    "$2" -m venv "$venv" && ansible_of "$1" &&
        grep -v '^ansible-core' requirements.txt >"$venv/requirements.txt" &&
        "$venv/bin/pip" install -q -r "$venv/requirements.txt" 'pyyaml>=6,<7' 'pytest>=8,<10' 'pytest-xdist>=3.5,<4' \
            'hypothesis>=6.100,<7' &&
        touch "$venv/complete"
}

run_tests() { # run_tests 2.20
    local tests=$edge
    [ -z "$sample" ] || tests=$private
    [ "$1" != hosts ] || tests=$hosts
    # shellcheck disable=SC2086
    PATH=$PWD/$work/$1/bin:$PATH "$work/$1/bin/python" -m pytest -q -p no:cacheprovider -n 2 $tests
}

failed=0
for pair in $pythons hosts=3.9 devel=3.13; do
    version=${pair%=*} number=${pair#*=} log=$work/${pair%=*}.log
    [ $# = 0 ] && [ "$version" != devel ] || [[ " $* " == *" $version "* ]] || continue
    : >"$log"
    if ! python=$(python_of "$number") || ! make_venv "$version" "$python" >>"$log" 2>&1; then
        verdict=FAIL
        [ -z "$sample" ] || verdict=SKIP
        echo "there is no ansible-core $version with Python $number to be had here" >>"$log"
    elif run_tests "$version" >>"$log" 2>&1; then
        verdict=PASS
    else
        verdict=FAIL
        grep -E '^(FAILED|ERROR)' "$log"
    fi
    [ $verdict != FAIL ] || failed=$((failed + 1))
    seen=$("$work/$version/bin/python" -c 'import ansible.release as r; print(r.__version__)' 2>/dev/null || echo "$version")
    printf '%s  %-10s Python %-5s %s\n' "$verdict" "$seen" "$number" "$(tail -n 1 "$log")"
done
[ "$failed" = 0 ]
