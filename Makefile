# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Short names for those who develop the collection; ./test.sh needs none of them.

BERTH_VENV ?= $(CURDIR)/.venv
export BERTH_VENV
export ANSIBLE_COLLECTIONS_PATH = $(CURDIR)/.cache/collections
export PATH := $(BERTH_VENV)/bin:$(PATH)
LAB ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup lint unit coverage protocol histories lies soak nova-tests integration walk realguest renderers mutants matrix molecule runner execution-environment bench fleet faults docs changelog package lab lab-down clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 32

setup:  ## install the tools into .venv
	lab/setup

lint:  ## every static check, side by side
	tests/lint.sh

unit:  ## unit tests, with a sample of the interleavings of moves and of the long histories
	pytest tests/unit tests/protocol/test_sample.py tests/protocol/test_histories.py

coverage:  ## which lines the unit tests run, to .cache/coverage
	COVERAGE_FILE=.cache/coverage.data pytest tests/unit -q -n 2 --cov=plugins --cov-report=term:skip-covered --cov-report=html:.cache/coverage

protocol:  ## every interleaving of runs that move one instance, with kills and crashes, in memory (minutes)
	pytest -n auto tests/protocol

histories:  ## 1000 long random histories of a fleet in memory: many operations, kills, lost hosts (minutes)
	python tests/protocol/histories.py --seeds 1000

lies:  ## every lie that the schemas let one host tell, in each playbook on hosts in memory (long)
	python tests/unit/replies/all_lies.py

nova-tests:  ## Nova's own unit tests, asked of placement; installs Nova below .cache (some minutes)
	python tests/nova/run.py

integration:  ## tests on two labs of real libvirt hosts, with the slow ones
	pytest -n 2 --dist loadfile tests/integration

walk:  ## the README, command by command, from a bare Debian to a shell in a guest (minutes, as root)
	pytest -s tests/walk

realguest:  ## a Debian 12 cloud image, made here, taken through create, moves, firmwares and buses (about an hour)
	pytest -v tests/realguest

renderers:  ## the network-config in Debian's cloud-init, and in each release below .cache/cloud-init/releases
	pytest tests/renderers

mutants:  ## break the code in known ways: the tests must notice each
	python tests/mutants/mutants.py

matrix:  ## the tests of the edge to Ansible on each ansible-core, of the hosts' code on Python 3.9 (minutes)
	tests/matrix.sh

molecule:  ## Molecule's scenarios, each on a lab of its own
	tests/molecule.sh

runner:  ## each job template for AWX, run by ansible-runner on a lab of their own (minutes)
	tests/runner.sh

execution-environment:  ## every step of the image for AWX, carried out in a Debian root by chroot, for want of a container engine
	tests/execution_environment.sh

bench:  ## benchmarks that need nothing else than the lab, to .bench/
	for name in placement placement_reach placement_task packing host_facts ask_hosts create move live backup; do python tests/bench/$$name.py || failed=1; done; \
	python tests/bench/backup.py --backup-host || failed=1; \
	for hosts in 100 1000; do python tests/bench/plans.py --hosts $$hosts || failed=1; done; \
	if command -v hbal >/dev/null; then python tests/bench/ganeti.py || failed=1; fi; exit $$failed

fleet:  ## what playbooks cost the controller of many simulated hosts, to .bench/ (needs gcc)
	python tests/bench/fleet.py

faults:  ## kill and crash sweeps
	tests/faults/run.py

soak:  ## long random histories on a lab of three hosts (some minutes each)
	tests/faults/soak.py

docs:  ## the pages made from the code, and the site below .cache/docsite/html (installs the tools where they lack)
	@python -c 'import myst_parser, antsibull_docs' 2>/dev/null || lab/setup --dev
	python docs/make_errors.py
	python docs/generate.py
	python docs/make_playbooks.py
	python docs/make_roles.py
	python docs/make_situations.py
	python docs/make_map.py
	python docs/docsite/build.py

changelog:  ## CHANGELOG.md of the version in galaxy.yml, from the fragments; again after new ones
	python docs/make_changelog.py

package:  ## build the tarball, install it elsewhere, check what it holds
	tests/package.sh

lab:  ## bring up a lab of LAB=3 hosts
	lab/lab up $(LAB)

lab-down:  ## take it down
	lab/lab down

clean:  ## remove what the checks left (not the lab, not .venv)
	rm -rf .cache/lint .cache/package .bench tests/output
