#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Molecule's scenarios one after the other, or those named:   tests/molecule.sh [scenario ...]
# After them the scenario of examples/molecule, by the name example.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${BERTH_VENV:-$PWD/.venv}/bin:$PATH" LC_ALL=C.UTF-8
export ANSIBLE_COLLECTIONS_PATH=$PWD/.cache/collections ANSIBLE_HOME=$PWD/.cache/molecule NO_COLOR=1

# docs/molecule.md: the role's scenario, twice at the same time, each with names and a directory of its own. The lab's
# guest has no Python, so Ansible works on this machine in its stead.
example() {
    local work=$PWD/.cache/molecule fleet=$PWD/.cache/molecule/fleet run runs=() failed=0
    rm -rf "$fleet" && mkdir -p "$fleet/group_vars"
    lab/lab --name molecule up 2
    trap 'lab/lab --name molecule down' RETURN
    cp "${BERTH_LAB_STATE:-.cache/lab}/molecule/inventory.yml" "$fleet/hosts.yml"
    cp examples/demo/catalog.yml "$fleet/catalog.yml"
    printf 'ansible_connection: local\nansible_python_interpreter: /usr/bin/python3\n' >"$fleet/group_vars/molecule.yml"
    ansible-playbook -i "$fleet" berth.kvm.prepare_hosts
    for run in one two; do
        (cd examples/molecule/roles/greeting &&
            BERTH_FLEET=$fleet RUN_ID=$run MOLECULE_EPHEMERAL_DIRECTORY=$work/$run molecule test) &
        runs+=($!)
    done
    for run in "${runs[@]}"; do wait "$run" || failed=1; done
    for run in 1 2; do [ -z "$(lab/lab --name molecule exec "$run" virsh list --all --name)" ] || failed=1; done
    return "$failed"
}

wanted=("$@")
if [ $# -eq 0 ]; then
    for file in extensions/molecule/*/molecule.yml; do wanted+=("$(basename "$(dirname "$file")")"); done
    wanted+=(example)
fi
for scenario in "${wanted[@]}"; do
    began=$SECONDS
    echo "== molecule: $scenario"
    if [ "$scenario" = example ]; then example; else
        molecule --base-config extensions/molecule/config.yml test --scenario-name "$scenario"
    fi
    echo "== molecule: $scenario passed in $((SECONDS - began)) s"
done
