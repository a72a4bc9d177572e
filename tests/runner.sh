#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The create playbook as AWX runs it: by ansible-runner, from a project with a playbook of one line, with the answers of
# the survey (examples/awx/survey.json) as extra variables; then the delete playbook. On a lab of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${BERTH_VENV:-$PWD/.venv}/bin:$PATH" LC_ALL=C.UTF-8
export ANSIBLE_COLLECTIONS_PATH=$PWD/.cache/collections ANSIBLE_HOME=$PWD/.cache/runner/home
data=$PWD/.cache/runner/data
lab=(lab/lab --name runner)

trap '"${lab[@]}" down >/dev/null' EXIT
rm -rf "$data"
mkdir -p "$data/project" "$data/inventory" "$data/env" "$ANSIBLE_HOME"
"${lab[@]}" up 2
cp .cache/lab/runner/inventory.yml "$data/inventory/hosts.yml"
cp examples/demo/catalog.yml "$data/inventory/catalog.yml"
for playbook in prepare_hosts create delete; do
    printf -- '---\n- name: From the collection\n  ansible.builtin.import_playbook: berth.kvm.%s\n' "$playbook" \
        >"$data/project/$playbook.yml"
done

answers() { # the survey's defaults, with a name and a count
    python - "$@" <<'END'
import json, sys
spec = json.load(open("examples/awx/survey.json"))["spec"]
print(json.dumps({**{item["variable"]: item["default"] for item in spec}, **json.loads(sys.argv[1])}))
END
}

run() {
    local began=$SECONDS
    ansible-runner run "$data" --playbook "$1.yml" --ident "$1-$2" --quiet || {
        cat "$data/artifacts/$1-$2/stdout"
        return 1
    }
    echo "runner: $1 ($2) $(<"$data/artifacts/$1-$2/status") in $((SECONDS - began)) s"
}

changes() { # changed tasks of a run, all hosts together
    grep -o 'changed=[0-9]*' "$data/artifacts/$1/stdout" | awk -F= '{sum += $2} END {print sum + 0}'
}

run prepare_hosts first
answers '{"berth_name": "awx", "berth_count": 2}' >"$data/env/extravars"
run create first
run create again
[ "$(changes create-again)" -eq 0 ] || { echo "runner: the second create changed something" >&2; exit 1; }
run delete first
[ "$(changes delete-first)" -ge 2 ] || { echo "runner: nothing was deleted" >&2; exit 1; }
