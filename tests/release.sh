#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# release.sh TAG: makes what a release is, in .cache/release: the tarball, tested where it is installed, its checksum, a
# signature of both if RELEASE_KEY names a key of gpg, and the notes of this version. Publishes nothing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/.cache/release
export PATH="${BERTH_VENV:-$root/.venv}/bin:$PATH" LC_ALL=C.UTF-8
fail() { echo "release: $*" >&2; exit 1; }

version=$(python -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))["version"])' "$root/galaxy.yml")
[ "${1:-}" = "v$version" ] || fail "the tag is ${1:-missing}, but galaxy.yml has $version. Tag v$version"
[ -z "$(git -C "$root" status --porcelain)" ] || fail "the checkout has changes. Commit them, and tag that commit"
waiting=$(cd "$root" && python - "$version" <<'END'
import sys, pathlib, yaml
told = set(yaml.safe_load(open("changelogs/changelog.yaml"))["releases"].get(sys.argv[1], {}).get("fragments", ()))
print(*sorted({path.name for path in pathlib.Path("changelogs/fragments").glob("*.yml")} - told))
END
)
[ -z "$waiting" ] || fail "not in the change log yet: $waiting. Run 'make changelog' and commit what it writes"

"$root/tests/package.sh"
rm -rf "$out" && mkdir -p "$out"
cp "$root/.cache/package/berth-kvm-$version.tar.gz" "$out/"
# What stands in the change log between this version's heading and that of the one before it.
awk -v anchor="<a id=\"v${version//./-}\"></a>" '$0 == anchor {on = 1} on && /^<a id="v/ && $0 != anchor {exit} on' \
    "$root/CHANGELOG.md" >"$out/notes.md"
[ -s "$out/notes.md" ] || fail "CHANGELOG.md has nothing about $version. Run 'make changelog'"
cd "$out"
sha256sum "berth-kvm-$version.tar.gz" >SHA256SUMS
if [ -n "${RELEASE_KEY:-}" ]; then
    for file in "berth-kvm-$version.tar.gz" SHA256SUMS; do
        gpg --batch --yes --local-user "$RELEASE_KEY" --armor --detach-sign "$file"
        gpg --batch --verify "$file.asc" "$file"
    done
fi
ls -l
