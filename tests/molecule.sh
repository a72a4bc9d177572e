#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Molecule's scenarios one after the other, or those named:   tests/molecule.sh [scenario ...]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${BERTH_VENV:-$PWD/.venv}/bin:$PATH" LC_ALL=C.UTF-8
export ANSIBLE_COLLECTIONS_PATH=$PWD/.cache/collections ANSIBLE_HOME=$PWD/.cache/molecule NO_COLOR=1

wanted=("$@")
if [ $# -eq 0 ]; then
    for file in extensions/molecule/*/molecule.yml; do wanted+=("$(basename "$(dirname "$file")")"); done
fi
for scenario in "${wanted[@]}"; do
    began=$SECONDS
    echo "== molecule: $scenario"
    molecule --base-config extensions/molecule/config.yml test --scenario-name "$scenario"
    echo "== molecule: $scenario passed in $((SECONDS - began)) s"
done
