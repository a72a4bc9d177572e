# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest with a TPM, which swtpm emulates: its state stays through stop and start, and goes with the instance."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from playbooks import catalog, homes, left, vm

STATES = "/var/lib/libvirt/swtpm"
# once for each TPM that is made; a TPM that is there is only started
BROUGHT_BACK = "grep -c -- -incoming /var/log/libvirt/qemu/%s.log; true"
MADE = "grep -c 'Ending vTPM manufacturing' /var/log/swtpm/libvirt/qemu/%s-swtpm.log"


@pytest.fixture
def with_swtpm(lab):
    if lab.sh(1, "command -v swtpm && command -v swtpm_setup", check=False).rc:
        pytest.skip("swtpm is not installed: lab/setup installs it")
    return lab


def power(lab, playbook, path):
    lab.ansible_playbook("berth.kvm." + playbook, "--limit", "sealed", inventory=[path])


def state_of(lab, host, uuid):
    """The state's directory by its inode, and the files in it."""
    return lab.sh(host, "stat -c %%i %s/%s && ls %s/%s/tpm2" % (STATES, uuid, STATES, uuid)).stdout


def processes(lab, host):
    return lab.sh(host, "pgrep -a swtpm; true").stdout


@pytest.mark.slow
def test_a_tpm_is_the_same_after_stop_and_start_and_gone_with_the_instance(with_swtpm, image, inventory):
    lab = with_swtpm
    image = {**image, "properties": {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}}
    path = inventory({"sealed": vm()}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    host = homes(lab)["sealed"]
    (domain,) = lab.domains(host)
    live = ElementTree.fromstring(lab.sh(host, "virsh dumpxml " + domain).stdout)
    tpm, uuid = live.find("devices/tpm"), live.findtext("uuid")
    assert (tpm.get("model"), dict(tpm.find("backend").attrib)["version"]) == ("tpm-crb", "2.0")
    assert "/%s/" % uuid in processes(lab, host)
    state = state_of(lab, host, uuid)
    assert "tpm2-00.permall" in state

    power(lab, "stop", path)
    assert processes(lab, host) == "" and state_of(lab, host, uuid) == state
    power(lab, "start", path)
    assert "/%s/" % uuid in processes(lab, host) and state_of(lab, host, uuid) == state
    assert lab.sh(host, MADE % domain).stdout.strip() == "1", "the TPM that was made first"

    power(lab, "delete", path)
    assert left(lab) == {} and processes(lab, host) == ""
    assert lab.sh(host, "find %s -mindepth 1" % STATES).stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("tpm", [False, True], ids=["uefi", "uefi and tpm"])
def test_a_guest_with_uefi_or_a_tpm_goes_on_from_the_memory_of_its_snapshot(with_swtpm, image, inventory, tpm):
    lab = with_swtpm
    firmware = {"hw_firmware_type": "uefi", "hw_machine_type": "q35", **({"hw_tpm_version": "2.0"} if tpm else {})}
    path = inventory({"sealed": vm()}, catalog({**image, "properties": firmware}))

    def play(playbook, **given):
        words = ["--limit", "sealed", "-e", "berth_snapshot=one", "-e", "berth_shutdown_timeout=1"]
        return lab.ansible_playbook("berth.kvm." + playbook, *words, inventory=[path], extra_vars=given)

    play("create")
    host = homes(lab)["sealed"]
    (domain,) = lab.domains(host)
    play("snapshot", berth_snapshot_memory=True)
    for _again in range(2):
        before = int(lab.sh(host, BROUGHT_BACK % domain).stdout)
        play("stop")
        assert play("revert_snapshot").changed["sealed"] == 1
        assert lab.sh(host, "virsh domstate " + domain).stdout.strip() == "running"
        assert int(lab.sh(host, BROUGHT_BACK % domain).stdout) == before + 1, "it was booted"
        assert bool(processes(lab, host)) is tpm
        play("reboot", berth_reboot="hard")
    if tpm:
        assert lab.sh(host, MADE % domain).stdout.strip() == "1", "the TPM that was made first"
    play("delete_snapshot")
    play("delete")
    assert left(lab) == {} and processes(lab, host) == ""


@pytest.mark.slow
def test_the_tpm_of_a_copy_that_was_set_aside_is_beside_its_disks_and_comes_back_with_them(
    with_swtpm, image, inventory
):
    lab = with_swtpm
    path = inventory({"sealed": vm()}, catalog({**image, "properties": {"hw_tpm_version": "2.0"}}))

    def play(playbook, **given):
        return lab.ansible_playbook("berth.kvm." + playbook, "--limit", "sealed", inventory=[path], extra_vars=given)

    play("create")
    first = homes(lab)["sealed"]
    (domain,) = lab.domains(first)
    uuid = lab.sh(first, "virsh domuuid " + domain).stdout.strip()
    its_tpm = digest_of(lab, first, "%s/%s/tpm2/tpm2-00.permall" % (STATES, uuid))
    lab.crash(first)
    play("create", berth_lost_hosts=first, berth_rebuild_lost="sealed")
    second = homes(lab)["sealed"]
    assert digest_of(lab, second, "%s/%s/tpm2/tpm2-00.permall" % (STATES, uuid)) != its_tpm, (
        "the TPM of an empty one is new"
    )

    lab.start(first)
    play("keep_one_copy", berth_keep_on=second)
    assert digest_of(lab, first, "/var/lib/libvirt/berth/set-aside/%s-*/tpm2-00.permall" % uuid) == its_tpm
    assert lab.sh(first, "find %s -mindepth 1" % STATES).stdout == ""

    lab.crash(second)
    play("keep_one_copy", berth_keep_on=first, berth_lost_hosts=second)
    assert digest_of(lab, first, "%s/%s/tpm2/tpm2-00.permall" % (STATES, uuid)) == its_tpm
    play("start", berth_lost_hosts=second)
    assert "/%s/" % uuid in processes(lab, first)
    assert lab.sh(first, MADE % domain).stdout.strip() == "1", "the TPM that was made first"


def digest_of(lab, host, path):
    return lab.sh(host, "sha256sum %s" % path).stdout.split()[0]
