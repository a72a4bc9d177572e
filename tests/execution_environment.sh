#!/usr/bin/env bash
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Carries out the build of examples/awx/execution-environment.yml without a container engine (tests/awx/build_image.py): every
# step that ansible-builder writes, with the tarball of this checkout, and looks at what came out. The base image cannot be made
# here; a minimal Debian 13 stands for it, with its Python 3.13, and tests/awx/dnf for dnf. Everything is below
# .cache/execution-environment.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/.cache/execution-environment
export PATH="${BERTH_VENV:-$root/.venv}/bin:$PATH" LC_ALL=C.UTF-8
python=python3.13

for tool in mmdebstrap unshare ansible-builder; do
    command -v $tool >/dev/null || { echo "execution-environment: skipped: $tool is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "execution-environment: skipped: chroot needs root"; exit 0; }

mirror=$(apt-get indextargets --format "\$(REPO_URI)" 2>/dev/null | grep -m1 '/debian/*$') ||
    { echo "execution-environment: skipped: apt has no mirror of Debian"; exit 0; }
if [ ! -e "$work/base.made" ]; then
    rm -rf "$work/base" && mkdir -p "$work"
    mmdebstrap --mode=root --variant=minbase --include=ca-certificates --quiet trixie "$work/base" "$mirror"
    touch "$work/base.made"
fi
rm -rf "$work/root" && cp --archive "$work/base" "$work/root"
install -m 755 "$root/tests/awx/dnf" "$work/root/usr/bin/dnf"
printf '#!/bin/sh\nexit 1\n' >"$work/root/usr/bin/rpm" # bindep asks it what is installed
chmod 755 "$work/root/usr/bin/rpm"
# so that the scripts take their steps for the base image
printf 'NAME="CentOS Stream"\nVERSION="9"\nID="centos"\nID_LIKE="rhel fedora"\nVERSION_ID="9"\n' >"$work/root/usr/lib/os-release"
cp -L /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt "$work/root/tmp/"
mv "$work/root/tmp/resolv.conf" "$work/root/etc/" && mv "$work/root/tmp/ca-certificates.crt" "$work/root/etc/ssl/certs/"

rm -rf "$work/source" "$work/context" && mkdir -p "$work/source"
cp "$root/examples/awx/execution-environment.yml" "$work/source"
"$root/tests/package.sh" >"$work/package.log"
cp "$root"/.cache/package/berth-kvm-*.tar.gz "$work/source/berth-kvm.tar.gz"
(cd "$work/source" && ansible-builder create --file execution-environment.yml --context "$work/context" --output-filename Containerfile)

modules=$(find "$root/plugins/modules" -name '[a-z]*.py' | wc -l)
"$root/tests/awx/build_image.py" "$work/context" "$work/root" "$work/stages" PYCMD=/usr/bin/$python PYPKG=$python -- bash -euc "
    [ \$(id -u) -eq 1000 ]
    [ \$(ansible-doc --list berth.kvm | grep -c '^berth\.kvm\.') -eq $modules ]
    ansible-playbook --inventory localhost, --syntax-check berth.kvm.create
    $python -c 'import ansible_runner, netaddr'
    ssh -V
"
echo "execution-environment: built, with $modules modules, $(du -sh "$work/stages/final" | cut -f1)"
