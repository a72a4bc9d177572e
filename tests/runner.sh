#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The playbooks as AWX runs them: by ansible-runner, from a project with a playbook of one line each, with the answers of the
# surveys (examples/awx/*.json) as extra variables, all of them as text. On a lab of its own.
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
for playbook in prepare_hosts create resize confirm_resize cold_migrate revert_resize delete; do
    printf -- '---\n- name: From the collection\n  ansible.builtin.import_playbook: berth.kvm.%s\n' "$playbook" \
        >"$data/project/$playbook.yml"
done

answers() { # SURVEY ANSWERS: the survey's defaults and these answers become the extra variables
    python - "$@" >"$data/env/extravars" <<'END'
import json, sys
spec = json.load(open("examples/awx/%s.json" % sys.argv[1]))["spec"]
given = {**{item["variable"]: item["default"] for item in spec}, **json.loads(sys.argv[2])}
print(json.dumps({name: str(value) for name, value in given.items()}))
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

unchanged() {
    [ "$(changes "$1")" -eq 0 ] || { echo "runner: $1 changed something" >&2; exit 1; }
}

run prepare_hosts first
answers create '{"berth_name": "awx", "berth_count": 2}'
run create first
run create again
unchanged create-again
answers resize '{"berth_name": "awx-1", "berth_flavor": "large", "resize_confirm_window": 60}'
run resize first
grep -q 'awx-1 is on .* confirm_due confirms it in ' "$data/artifacts/resize-first/stdout"
run resize again
unchanged resize-again
answers name '{"berth_name": "awx-1"}'
run confirm_resize first
answers migrate '{"berth_name": "awx-1"}'
run cold_migrate first
answers name '{"berth_name": "awx-1"}'
run revert_resize first
answers create '{"berth_name": "awx", "berth_count": 2}'
run delete first
[ "$(changes delete-first)" -ge 2 ] || { echo "runner: nothing was deleted" >&2; exit 1; }
