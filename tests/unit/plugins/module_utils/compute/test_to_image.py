# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image made of an instance that is off; of one that runs it is in the integration tests."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

import pytest
from backup_case import qemu
from instance_case import Killed
from small_disks import web_off, write

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts, to_image
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.to_image import ImageNotMade
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image
from ansible_collections.berth.kvm.plugins.module_utils.model import clone_hints, input_hints, made_images
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="QEMU's tools are not installed")
FIRST = "golden"
take = image.ensure  # the real one, which tests replace


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    return web_off(prepared, wanted("web1"), monkeypatch)


@pytest.fixture
def to(web, tmp_path):
    """The directory from which the host takes images."""
    path = tmp_path / "images"
    path.mkdir()
    web.host.settings = dataclasses.replace(web.host.settings, image_directories=(str(path),))
    return path


def make(case, name=FIRST, to=None, dry=False, killed_at=None):
    return acts.outcome_of(case.instance(killed_at), {"state": "image_made", "image": name, "to": to}, dry)


def made(case, **more):
    return make(case, **more)["instance"]["made_image"]


def test_an_image_has_what_was_written_and_the_catalog_line_makes_the_host_take_it(web, to):
    write(web, 7)
    record = web.record
    properties = {"hw_disk_bus": "scsi"}
    web.instance().swap(
        record.replace(spec={**record.spec, "image": {**record.spec["image"], "properties": properties}})
    )
    found = made(web)
    assert found["path"] == str(to / "golden.qcow2") and found["properties"] == properties and found["min_disk"] == 1
    assert "backing" not in qemu("qemu-img", "info", found["path"])
    wanted = {"name": FIRST, "url": found["path"], "checksum": found["checksum"], "disk_format": "qcow2"}
    taken = take(str(web.host.pool), wanted, 1, web.host.settings)
    qemu("qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", taken["path"], web.root)
    assert os.stat(found["path"]).st_mode & 0o077 == 0 and web.record.history[-1]["event"] == "image_from_instance"
    assert [each for each in os.listdir(to) if each.startswith(paths.PARTIAL)] == []


def test_what_is_printed_is_an_entry_of_the_catalog(web, to):
    yaml = pytest.importorskip("yaml")
    found = made(web)
    entry = yaml.safe_load("\n".join(made_images.entry(found)))["berth_images"][FIRST]
    assert entry == {"url": found["path"], "checksum": found["checksum"], "disk_format": "qcow2", "min_disk": 1}
    more = dict(found, min_ram=64, properties={"os_type": "a: 'b'"}, kernel={"url": "/k", "checksum": "sha256:0"})
    entry = yaml.safe_load("\n".join(made_images.entry(more)))["berth_images"][FIRST]
    assert entry["properties"] == more["properties"] and entry["min_ram"] == 64 and entry["kernel"] == more["kernel"]


@pytest.mark.parametrize("name", ["12", "1.0", "20261129", "on", "null"])
def test_a_name_that_yaml_reads_as_something_else_is_printed_as_text(name):
    yaml = pytest.importorskip("yaml")
    image = {"name": name, "path": "/i", "checksum": "sha256:0", "min_disk": 1, "min_ram": 0}
    entry = "\n".join(made_images.entry({**image, "properties": {}, "kernel": None, "initrd": None}))
    assert list(yaml.safe_load(entry)["berth_images"]) == [name]


def test_the_file_of_an_image_is_read_once_to_tell_that_it_is_there(web, to, monkeypatch):
    make(web)
    read, digest = [], to_image.place.digest
    monkeypatch.setattr(to_image.place, "digest", lambda path: read.append(path) or digest(path))
    assert make(web)["changed"] is False and make(web, dry=True)["changed"] is False
    assert len(read) == 2


def test_a_run_that_is_cut_off_after_the_image_has_its_name_leaves_a_file_that_the_next_one_removes(web, to):
    with pytest.raises(Killed):
        make(web, killed_at="image named")
    assert len(os.listdir(to)) == 2
    assert make(web)["changed"] is False and os.listdir(to) == ["golden.qcow2"]


def test_a_directory_that_has_no_second_names_for_a_file_is_told_and_nothing_is_left(web, to, monkeypatch):
    def refuse(*_paths):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(PermissionError):
        make(web)
    assert os.listdir(to) == []


def test_the_second_run_changes_nothing_and_tells_the_same(web, to):
    first = made(web)
    again = make(web)
    assert again["changed"] is False and again["instance"]["made_image"] == first


def test_a_dry_run_makes_none(web, to):
    assert make(web, dry=True)["changed"] is True and os.listdir(to) == []
    make(web)
    assert make(web, dry=True)["changed"] is False


@pytest.mark.parametrize("step", ["image copy", "image copied", "image noted"])
def test_a_run_that_is_cut_off_leaves_no_image_and_the_next_one_makes_it(web, to, step):
    with pytest.raises(Killed):
        make(web, killed_at=step)
    assert [name for name in os.listdir(to) if not name.startswith(".")] == []
    write(web, 9)
    assert make(web)["changed"] is True and os.listdir(to) == ["golden.qcow2"]
    qemu("qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", to / "golden.qcow2", web.root)


@pytest.mark.follows("name_another_image")
def test_a_file_of_that_name_that_is_not_this_image_is_left_as_it_is(web, to):
    (to / "golden.qcow2").write_text("somebody's")
    with pytest.raises(ImageNotMade) as caught:
        make(web)
    assert clone_hints.name_another_image(str(to / "golden.qcow2")) in str(caught.value)
    assert (to / "golden.qcow2").read_text() == "somebody's"
    assert made(web, name="other")["path"] == str(to / "other.qcow2")


@pytest.mark.parametrize("where", ["/elsewhere", "{}/../elsewhere", "{}x", "relative"])
def test_an_image_is_made_only_where_the_host_takes_images_from(web, to, where):
    with pytest.raises(ImageNotMade, match="takes no images from") as caught:
        make(web, to=where.format(to))
    assert input_hints.image_directory() in str(caught.value) and str(to) in str(caught.value)


def test_a_host_without_a_directory_for_images_says_so(web):
    with pytest.raises(ImageNotMade, match="takes no images from any directory"):
        make(web)


@pytest.mark.follows("make_image_directory")
def test_a_directory_for_images_that_is_not_there_is_told(web, to):
    with pytest.raises(ImageNotMade) as caught:
        make(web, to=str(to / "more"))
    assert clone_hints.make_image_directory(web.host.connection.getHostname(), str(to / "more")) in str(caught.value)
    (to / "more").mkdir()
    assert made(web, to=str(to / "more"))["path"] == str(to / "more" / "golden.qcow2")


@pytest.mark.follows("name_image")
@pytest.mark.parametrize("name", [None, "", "../x", "a/b", ".x", "a b", "x" * 101, "ü"])
def test_the_name_of_an_image_is_one_of_a_file(web, to, name):
    with pytest.raises(InvalidInput) as caught:
        make(web, name=name)
    assert clone_hints.name_image() in str(caught.value) and os.listdir(to) == []
    assert made(web, name="x")["name"] == "x"


def test_an_image_that_would_fill_the_directory_is_refused(web, to, monkeypatch):
    monkeypatch.setattr(paths, "free_bytes", lambda _path: 1000)
    with pytest.raises(ImageNotMade, match="of 0 MiB that are free"):
        make(web)
    assert os.listdir(to) == []


@pytest.mark.follows("share_image")
def test_other_hosts_take_the_image_from_the_same_path(web, to, make_host, tmp_path):
    found = made(web)
    assert clone_hints.share_image("h1", found["path"]).startswith("Other hosts need the file at the same path")
    wanted = {"name": FIRST, "url": found["path"], "checksum": found["checksum"], "disk_format": "qcow2"}
    (tmp_path / "other").mkdir()
    assert take(str(tmp_path / "other"), wanted, 1, web.host.settings)["fetched"] is True


@pytest.mark.parametrize("error", [ImageNotMade("bad"), OSError(5, "Input/output error")])
def test_a_copy_that_failed_leaves_nothing(web, to, monkeypatch, error):
    def check(_path):
        raise error

    monkeypatch.setattr(to_image.place, "check_qcow2", check)
    with pytest.raises(type(error)):
        make(web)
    assert os.listdir(to) == [] and json.dumps(web.record.history).count("image_from_instance") == 0


def test_an_image_that_another_host_made_meanwhile_is_not_replaced(web, to, monkeypatch):
    done = to_image.clone.copy
    monkeypatch.setattr(
        to_image.clone, "copy", lambda *given: [done(*given), (to / "golden.qcow2").write_text("its")][0]
    )
    with pytest.raises(ImageNotMade, match="is there already"):
        make(web)
    assert os.listdir(to) == ["golden.qcow2"] and (to / "golden.qcow2").read_text() == "its"
