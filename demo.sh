#!/bin/sh
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ./demo.sh              a lab of three real libvirt hosts on this machine, and four instances placed and made on it
# ./demo.sh --registry   the same, and the hosts are the members of a registry, over which the instances are made
# ./demo.sh down         end it, leave nothing
set -eu
cd "$(dirname "$0")"

if [ "$(id -u)" != 0 ]; then
  echo "demo: the lab's namespaces need root; going on with sudo"
  exec sudo -E "$0" "$@"
fi

lab="lab/lab --name demo"
inventories="-i .cache/lab/demo/inventory.yml -i examples/demo/catalog.yml -i examples/demo/instances.yml"
began=$(date +%s)

case ${1:-up} in
  up | --registry) ;;
  down)
    $lab down
    exit
    ;;
  *)
    sed -n '6,8s/^# //p' "$0" >&2
    exit 2
    ;;
esac

if [ "${1:-}" = --registry ] && ! command -v etcd >/dev/null; then
  echo "demo: the registry needs etcd: apt-get install etcd-server etcd-client" >&2
  exit 2
fi

title() {
  printf '==> [%ss] %s\n' $(($(date +%s) - began)) "$*"
}

playbook() {
  # shellcheck disable=SC2086
  ansible-playbook $inventories "$@" </dev/null
}

title "Set-up: packages, ansible-core, the guest image (what is there is not made again)"
lab/setup
echo
. lab/env
# what changes and what is told is shown, not each task that finds nothing to do
export ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_DISPLAY_SKIPPED_HOSTS=False ANSIBLE_DISPLAY_OK_HOSTS=False
export ANSIBLE_HOME="$PWD/.cache/ansible"
[ ! -t 1 ] || export ANSIBLE_FORCE_COLOR=True

title "Three hosts of different sizes, each with its own libvirtd, sshd and disk"
$lab up 3 --size 1:cpus=8,mem=16384,cells=2,disk=20G --size 2:cpus=4,mem=8192,disk=10G --size 3:cpus=2,mem=4096,disk=6G
$lab status
echo

log=.cache/lab/demo/prepare.log
title "berth.kvm.prepare_hosts: settings, storage pool, boot gate, certificates (what it does: $log)"
playbook berth.kvm.prepare_hosts >$log 2>&1 || { cat $log >&2; exit 1; }
sed -n '/PLAY RECAP/,$p' $log

if [ "${1:-}" = --registry ]; then
  title "berth.kvm.prepare_registry: the three hosts become the members of a registry (etcd)"
  inventories="$inventories -i examples/demo/registry.yml"
  playbook berth.kvm.prepare_registry >$log 2>&1 || { cat $log >&2; exit 1; }
  registry=$(sed -n 's/.*\(berth_registry: .*\)/\1/p' $log)
  echo "$registry"
  printf 'all:\n  vars:\n    %s\n' "$registry" >.cache/lab/demo/registry.yml
  inventories="$inventories -i .cache/lab/demo/registry.yml"
  echo
  title "berth.kvm.use_registry: the fleet goes over to it"
  playbook berth.kvm.use_registry
fi

title "berth.kvm.host_facts: what each host has"
playbook berth.kvm.host_facts

title "berth.kvm.place: where would two of the instances go, and why not elsewhere (all of them without --limit)"
playbook berth.kvm.place --limit web1,web2

title "berth.kvm.create: four instances, web1 and web2 never on one host"
playbook berth.kvm.create

title "From the guests' own consoles"
.venv/bin/python lab/show_guests demo examples/demo
echo

title "berth.kvm.report: the fleet as a page for a browser, and as JSON"
playbook berth.kvm.report -e berth_report_page="$PWD/.cache/lab/demo/fleet.html"

cat <<END
==> Done in $(($(date +%s) - began)) s. What to try next:

  . lab/env; inv="$inventories"
  ansible-playbook \$inv berth.kvm.create                          # again: nothing changes
  ansible-playbook \$inv berth.kvm.create -e berth_name=extra -e berth_flavor=tiny -e berth_image=guest
  ansible-playbook \$inv berth.kvm.delete --limit web2
  lab/lab --name demo exec 1 virsh list --title                   # look at a host
  lab/lab --name demo crash 2                                     # power cut; 'start 2' brings it back
  ./demo.sh down                                                  # end everything

The report: file://$PWD/.cache/lab/demo/fleet.html
END
