#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the tarball, installs it where nothing of the checkout is in reach, and looks at what is there: the plugins'
# documentation, the playbooks' syntax, and that neither the lab nor anything cached was packed.
# The installed collection stays in .cache/package/installed: set ANSIBLE_COLLECTIONS_PATH to it to run from there.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/.cache/package
installed=$work/installed
export PATH="${BERTH_VENV:-$root/.venv}/bin:$PATH" LC_ALL=C.UTF-8
export ANSIBLE_HOME=$work/ansible ANSIBLE_COLLECTIONS_PATH=$installed ANSIBLE_NOCOLOR=1
export ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_INVENTORY_UNPARSED_WARNING=false

rm -rf "$work" && mkdir -p "$work/source"
git -C "$root" ls-files --cached --others --exclude-standard -z |
    (cd "$root" && while IFS= read -r -d '' path; do [ ! -e "$path" ] || printf '%s\0' "$path"; done) |
    tar -C "$root" --null --files-from=- -cf - | tar -C "$work/source" -xf -
ansible-galaxy collection build "$work/source" --output-path "$work"
tarball=$(echo "$work"/berth-kvm-*.tar.gz)
ansible-galaxy collection install "$tarball" --collections-path "$installed"

cd "$work"
base=$installed/ansible_collections/berth/kvm
fail() { echo "package: $*" >&2; exit 1; }

listed=$(tar -tzf "$tarball")
for unwanted in lab/ .cache/ .venv/ .git/ .github/ .pre-commit-config.yaml Makefile demo.sh extensions/ test.sh tests/; do
    ! grep -q "^$unwanted" <<<"$listed" || fail "$unwanted was packed"
done
! grep -q '^docs/.*\.py$' <<<"$listed" || fail "what makes the pages was packed"
for wanted in MANIFEST.json README.md meta/runtime.yml LICENSES/GPL-3.0-or-later.txt playbooks/ roles/ plugins/modules/; do
    grep -q "^$wanted" <<<"$listed" || fail "$wanted is missing"
done

# ansible-doc succeeds whatever it finds: so compare what it knows with what is there.
documented=0
for kind in module inventory callback filter role; do
    folder=$base/plugins/$kind
    case $kind in module) folder+=s ;; role) folder=$base/roles ;; esac
    names=()
    for entry in "$folder"/*; do
        name=$(basename "${entry%.py}")
        if [ -e "$entry" ] && [[ $name != __* ]]; then names+=("berth.kvm.$name"); fi
    done
    [ ${#names[@]} -gt 0 ] || continue
    known=$(ansible-doc --type "$kind" --json "${names[@]}" 2>"$work/doc.txt" | python -c 'import json, sys; print(*json.load(sys.stdin))')
    for name in "${names[@]}"; do
        [[ " $known " == *" $name "* ]] || { cat "$work/doc.txt"; fail "no documentation of the $kind $name"; }
    done
    documented=$((documented + ${#names[@]}))
done

playbooks=()
for file in "$base"/playbooks/*.yml; do playbooks+=("berth.kvm.$(basename "$file" .yml)"); done
cat >"$work/inventory.yml" <<'END'
all:
  hosts: {web-1: {}}
  children: {kvm_hosts: {hosts: {kvm1: {}}}}
END
ansible-playbook -i "$work/inventory.yml" --syntax-check "${playbooks[@]}" >"$work/syntax.txt" 2>&1 ||
    { cat "$work/syntax.txt"; fail "a playbook's syntax"; }

echo "package: $(basename "$tarball"), $(wc -c <"$tarball") bytes, $documented documented plugins and roles, ${#playbooks[@]} playbooks"
