#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Each job template of examples/awx/controller.yml as AWX runs it (tests/awx/launch.py): by ansible-runner, from a project with a
# playbook of one line each, with the answers of its survey as extra variables; and the workflow of an approval, in which a job
# gets what an earlier one has set. On a lab of its own.
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
printf -- 'all: {children: {vms: {hosts: {listed: {berth_flavor: tiny, berth_image: guest}}}}}\n' >"$data/inventory/instances.yml"
sed -n 's/.* playbook: \([a-z_]*\)[,}].*/\1/p' examples/awx/controller.yml | while read -r playbook; do
    printf -- '---\n- name: From the collection\n  ansible.builtin.import_playbook: berth.kvm.%s\n' "$playbook" \
        >"$data/project/$playbook.yml"
done

job() { # TEMPLATE IDENT OPTIONS of tests/awx/launch.py
    tests/awx/launch.py "$data" "$@"
}

fail() {
    echo "runner: $1" >&2
    exit 1
}

changes() { # changed tasks of a job, all hosts together
    grep -o 'changed=[0-9]*' "$data/artifacts/$1/stdout" | awk -F= '{sum += $2} END {print sum + 0}'
}

unchanged() {
    [ "$(changes "$1")" -eq 0 ] || fail "$1 changed something"
}

changed() { # IDENT AT-LEAST
    [ "$(changes "$1")" -ge "$2" ] || fail "$1 changed less than $2 tasks"
}

said() { # IDENT WHAT
    tr -s '[:space:]' ' ' <"$data/artifacts/$1/stdout" | grep -q -- "$2" || fail "$1 did not say: $2"
}

guests() { # HOST [--state-running]: names of its domains, or of those that run, one a line
    "${lab[@]}" exec "$1" virsh list --name "${2:---all}" | sed '/^$/d' | sort
}

approved() { # IDENT: each instance that the job leaves to approve, with its host
    python - "$data" "$1" <<'END_OF_PYTHON'
import sys
from pathlib import Path
sys.path.insert(0, "tests/awx")
import launch
found = launch.artifacts(Path(sys.argv[1]), sys.argv[2])["berth_approved"]
print("\n".join("%s %s" % (name, found[name]["host"]) for name in sorted(found)))
END_OF_PYTHON
}

job "Prepare hosts" prepare
job "Create a VM" create --answers '{"berth_name": "awx", "berth_count": 2}'
changed create 2
job "Create a VM" create-again --answers '{"berth_name": "awx", "berth_count": 2}'
unchanged create-again
job "Create what the inventory says" listed --limit listed
changed listed 1

two='{"berth_name": "wf", "berth_count": 2}'
job "Where would it go" place --survey create --answers "$two"
unchanged place
job "Create what was approved" without --survey create --answers "$two" --fails
said without NotApproved
job "Create what was approved" approved --survey create --answers "$two" --after place
[ "$(approved place | wc -l)" -eq 2 ] || fail "place left nothing to approve"
while read -r name host; do
    said approved "$name active $host "
done < <(approved place)
job "Create what was approved" approved-again --survey create --answers "$two" --after place
unchanged approved-again

# Somebody else takes room where the next one was to go, so it would go elsewhere now.
late='{"berth_name": "late"}'
job "Where would it go" place-late --survey create --answers "$late"
job "Create a VM" rival --answers '{"berth_name": "rival", "berth_flavor": "large"}'
said rival "rival active $(approved place-late | cut -d' ' -f2) "
job "Create what was approved" late --survey create --answers "$late" --after place-late --fails
said late "NotApproved: this was not approved: late would now go to "
for host in 1 2; do
    ! guests $host | grep -x late || fail "late was made, which was not approved"
done

job "Stop" stop --answers '{"berth_name": "awx-2"}'
said stop "awx-2 stopped"
job "Start" start --answers '{"berth_name": "awx-2"}'
said start "awx-2 started"
answers='{"berth_name": "awx-1", "berth_flavor": "small", "berth_confirm_window": 60}'
job "Resize a VM" resize --answers "$answers"
said resize "awx-1 is on .* confirm_due confirms it in "
job "Resize a VM" resize-again --answers "$answers"
unchanged resize-again
job "Confirm" confirm --answers '{"berth_name": "awx-1"}'
said confirm "awx-1 confirmed"
job "Resize a VM" resize-due --answers '{"berth_name": "awx-1", "berth_flavor": "large", "berth_confirm_window": 1}'
# Instances that were made from a survey are known to a schedule by this source.
cat >"$data/inventory/zz.berth.yml" <<'END'
plugin: berth.kvm.instances
kvm_inventory: [hosts.yml, catalog.yml]
END
job "Confirm what is due" due
said due "awx-1 confirmed"
job "Migrate a VM cold" cold --answers '{"berth_name": "awx-1"}'
said cold "awx-1 migrated "
job "Revert" revert --answers '{"berth_name": "awx-1"}'
said revert "awx-1 reverted"
job "Migrate a VM live" live --answers '{"berth_name": "awx-2"}'
said live "awx-2 migrated "
"${lab[@]}" crash 1
"${lab[@]}" start 1
job "Start what lost its power" recover
changed recover 1
if [ -z "$(guests 1)" ] || [ "$(guests 1 --state-running)" != "$(guests 1)" ]; then
    fail "not every guest of the host runs again"
fi
job "Delete" delete --answers '{"berth_name": "awx", "berth_count": 2}'
said delete "awx-1 deleted"
said delete "awx-2 deleted"
job "Fleet" fleet
said fleet "runner1 .* up runner2 .* up "
job "Doctor" doctor
