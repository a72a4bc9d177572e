#!/bin/sh
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ./test.sh   sets up what is missing and runs what a person waits for: lint, unit and lives, without their slowest checks
#             and with one case of each test, another one with each commit.
# ./test.sh all   lint without pylint and ansible-lint, unit, samples and integration, with one in two of the unit tests
#                 marked long and one in four of the lab's, others with each commit: what a build server runs.
# ./test.sh lint|unit|samples|lives|integration ...   these parts, whole.
# BERTH_TEST_KEEP=1 leaves the labs of the integration tests up, BERTH_TEST_LAB names them (default: test).
set -eu
cd "$(dirname "$0")"

if [ "$(id -u)" != 0 ]; then
  echo "test: the lab's namespaces need root; going on with sudo"
  exec sudo -E "$0" "$@"
fi

lab/setup --dev
. lab/env
export PYTHONDONTWRITEBYTECODE=1

title() {
  printf '\n==> %s (%s)\n' "$*" "$(date +%T)"
}

lint() {
  title "lint"
  # shellcheck disable=SC2086  # words
  tests/lint.sh $steps
}

unit() {
  title "unit tests"
  python -m pytest -q -p no:cacheprovider --durations=15 -n 2 ${quick:+-m "not long" --cases=1} ${turn:+--turn=2} \
    tests/unit tests/protocol/test_sample.py tests/protocol/test_histories.py
}

samples() {
  title "samples of the mutants and of other versions of Ansible and Python"
  python tests/mutants/mutants.py --sample 12 || return
  tests/matrix.sh --sample 2.21 2.22
}

labs_down() {
  for suffix in "" -0 -1; do
    lab/lab --name "${BERTH_TEST_LAB:-test}$suffix" down >/dev/null
  done
}

on_labs() {
  trap labs_down INT TERM
  # By file: what the tests of a file share is made once.
  python -m pytest -v -o cache_dir=.cache/pytest --cache-clear --durations=15 -n 2 --dist loadfile -m "not slow" ${turn:+--turn=4} "$@" && return
  # QEMU without KVM now and then corrupts the memory of a guest that is migrated live: its kernel ends with an oops.
  title "once more, on a new lab, the tests that failed"
  python -m pytest -v -o cache_dir=.cache/pytest --last-failed --last-failed-no-failures none -m "not slow" ${turn:+--turn=4} "$@"
}

lives() {
  title "lives of instances, on two labs of real hosts side by side"
  on_labs tests/integration/test_create.py tests/integration/test_resize.py tests/integration/test_migrate.py tests/integration/test_delete.py
}

integration() {
  title "integration tests, on two labs of real hosts side by side"
  on_labs tests/integration
}

# The steps of lint; none are all of them. Those that are left out take minutes each.
steps=
quick=
turn=
if [ $# = 0 ]; then
  quick=yes
  steps="docs mypy ruff yamllint reuse shellcheck changelog"
  set -- lint unit lives
elif [ "$*" = all ]; then
  turn=yes
  steps="sanity validate-modules oldest-python docs mypy ruff yamllint reuse shellcheck changelog"
  set -- lint unit samples integration
fi

# All parts run even if an earlier one fails, so that one run tells everything.
failed=
for part in "$@"; do
  case $part in
    lint | unit | samples | lives | integration) $part || failed="$failed $part" ;;
    *)
      sed -n '6,12s/^# //p' "$0" >&2
      exit 2
      ;;
  esac
done

if [ -n "$failed" ]; then
  echo "FAILED:$failed" >&2
  exit 1
fi
