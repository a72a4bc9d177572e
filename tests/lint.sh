#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# All static checks, side by side on the CPUs there are:   tests/lint.sh [step ...]
# They read a copy of the working tree under .cache/lint, laid out as an installed collection, so that a check neither
# sees nor writes anything in the checkout. The log of each step is .cache/lint/log/<step>.
# BERTH_VENV names the virtual environment that has the tools (default: .venv).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
venv=${BERTH_VENV:-$root/.venv}
work=$root/.cache/lint
copy=$work/collections/ansible_collections/berth/kvm
logs=$work/log
steps=(sanity validate-modules pylint oldest-python ansible-lint docs mypy ruff yamllint reuse shellcheck changelog)

fail() { echo "lint: $*" >&2; exit 2; }

[ -x "$venv/bin/ansible-test" ] || fail "no tools in $venv: run ./test.sh once, or set BERTH_VENV"
export PATH="$venv/bin:$PATH" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export ANSIBLE_COLLECTIONS_PATH=$work/collections ANSIBLE_HOME=$work/ansible ANSIBLE_NOCOLOR=1 NO_COLOR=1

# One run at a time: two would pull the copy from under each other.
mkdir -p "$logs" "$work/ansible"
exec 9>"$work/lock"
flock -w 900 9 || fail "another lint run holds $work/lock"

export_tree() {
    rm -rf "$copy" && mkdir -p "$copy"
    git -C "$root" ls-files --cached --others --exclude-standard -z |
        (cd "$root" && while IFS= read -r -d '' path; do [ ! -e "$path" ] || printf '%s\0' "$path"; done) |
        tar -C "$root" --null --files-from=- -cf - | tar -C "$copy" -xf -
    # A repository of its own: else the tools find the checkout's further up, which ignores the copy.
    git -C "$copy" init --quiet
    # ansible-test writes beside what it reads, so each of its runs has a copy of its own.
    local step
    for step in sanity validate-modules pylint oldest-python; do
        rm -rf "$(copy_of "$step")" && mkdir -p "$(dirname "$(copy_of "$step")")" && cp -a "$copy" "$(copy_of "$step")"
    done
}

copy_of() { echo "$work/$1/ansible_collections/berth/kvm"; }

# ansible-test gives its children HOME but not the environment that says where packages come from: hence a HOME of our
# own with pip's settings in it. It also keeps its environments there, so that only the first run makes them.
prepare_ansible_test_home() {
    local home=$1 pip_version
    mkdir -p "$home/.ansible/test/cache" "$home/.config/pip"
    { echo "[global]"
      python -m pip config list | sed -nE "s/^(:env:|global)\.([a-z-]+)='(.*)'$/\2 = \3/p" | awk -F' = ' '!seen[$1]++'
    } >"$home/.config/pip/pip.conf"
    pip_version=$(sed -nE "s/^ *(venv_packages = dict\()?pip='([0-9.]+)'.*/\2/p" \
        "$(python -c 'import ansible_test; print(ansible_test.__path__[0])')/_internal/python_requirements.py" | head -1)
    cp "$copy/tests/sanity/get_pip.py" "$home/.ansible/test/cache/get_pip_${pip_version//./_}.py"
}

# pyenv's shims answer for versions that are not switched on, and then fail: the versions themselves stand in for them.
path_without_shims() {
    local entry versions path=
    while IFS= read -r -d : entry; do
        versions=${entry%/shims}/versions
        if [ "${entry##*/}" = shims ] && [ -d "$versions" ]; then
            for entry in "$versions"/*/bin; do path+=$entry:; done
        else
            path+=$entry:
        fi
    done <<<"$PATH:"
    echo "${path%:}"
}

ansible_test_sanity() { # ansible_test_sanity STEP OPTION...
    local home=$work/$1/home
    cd "$(copy_of "$1")"
    shift
    prepare_ansible_test_home "$home"
    PATH=$(path_without_shims)
    # Neither the lab nor the CI script is part of what is built and installed.
    HOME=$home ansible-test sanity --color no --venv --exclude lab/ --exclude .ci/ "$@"
}
# The slowest tests of sanity are parts of their own, since each part takes one CPU. They run on this environment's Python;
# the oldest Python of hosts, where there is one, is the one that compiles and imports each plugin in a process of its own.
step_sanity() {
    local version skipped=()
    version=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    ! oldest_python || skipped=(--skip-test compile --skip-test import)
    ansible_test_sanity sanity --python "$version" --skip-test pylint --skip-test validate-modules --skip-test ansible-doc "${skipped[@]}"
}
step_validate-modules() { ansible_test_sanity validate-modules --test validate-modules --test ansible-doc; }
step_pylint() { ansible_test_sanity pylint --test pylint; }
oldest_python() { PATH=$(path_without_shims) command -v python3.9 >/dev/null; }
step_oldest-python() {
    oldest_python || { echo "there is no python3.9: skipped"; return 0; }
    ansible_test_sanity oldest-python --python 3.9 --test compile --test import
}
step_ansible-lint() { ansible-lint --offline --profile production --nocolor; }
step_docs() { antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self .; }
step_mypy() {
    local rooms=ansible_collections.berth.kvm.plugins.module_utils
    cd "$work/collections"
    MYPYPATH=$PWD mypy --config-file "$copy/pyproject.toml" --cache-dir "$work/mypy" -p "$rooms.model" -p "$rooms.conductor" \
        -p "$rooms.fleet"
}
step_ruff() { ruff check --no-cache --output-format concise .; }
step_yamllint() { yamllint --strict --format parsable .; }
step_reuse() { reuse --no-multiprocessing lint --lines; }
step_shellcheck() {
    command -v shellcheck >/dev/null || { echo "shellcheck is not installed: skipped"; return 0; }
    # Scripts are known by their first line, most have no suffix; busybox's is told as dash.
    local path line scripts=()
    while IFS= read -r -d '' path; do
        IFS= read -r line <"$path" 2>/dev/null || true
        case $line in '#!'*sh | '#!'*'sh '*) scripts+=("$path") ;; esac
    done < <(find . -name .git -prune -o -type f -size -200k -print0)
    [ ${#scripts[@]} -gt 0 ] || { echo "no script was found"; return 1; }
    echo "${#scripts[@]} scripts"
    shellcheck --severity=warning "${scripts[@]}"
}
step_changelog() { antsibull-changelog lint; }

run_step() {
    local name=$1 began=$SECONDS verdict=PASS status
    set +e
    (set -e; cd "$copy"; "step_$name") >"$logs/$name" 2>&1 </dev/null
    status=$?
    [ "$status" -eq 0 ] || verdict=FAIL
    echo "$verdict $name $((SECONDS - began))" >"$logs/$name.verdict"
    printf '%s  %-12s %4d s\n' "$verdict" "$name" "$((SECONDS - began))"
}

wanted=("${@:-${steps[@]}}")
began=$SECONDS
for name in "${wanted[@]}"; do
    declare -F "step_$name" >/dev/null || fail "no step $name; there are: ${steps[*]}"
done
export_tree
rm -f "$logs"/*

for name in "${wanted[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    run_step "$name" &
done
wait

failed=0
for name in "${wanted[@]}"; do
    grep -qs ^PASS "$logs/$name.verdict" && continue
    failed=$((failed + 1))
    printf '\n===== %s failed (%s)\n' "$name" "$logs/$name"
    tail -n 60 "$logs/$name"
done
printf '\nlint: %d steps, %d failed, %d s\n' "${#wanted[@]}" "$failed" "$((SECONDS - began))"
[ "$failed" -eq 0 ]
