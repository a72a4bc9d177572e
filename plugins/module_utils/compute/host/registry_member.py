# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member of the registry on this machine: etcd's settings, key and certificate, its service, its backups, and their restore.

It is an instance of its own beside the one of the package, which knows no TLS. The key is made here and never leaves.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import ipaddress
import json
import os
import pwd
import shutil
import tempfile

from ...model import registry_member_hints
from ...model.errors import BerthError
from .. import durable
from ..errors import HostNotPrepared
from ..run import run
from .system_files import UNITS, SystemFiles

ETC, STATE, RUN = "/etc/berth-registry", "/var/lib/berth-registry", "/run/berth-registry"
SERVICE, BACKUP = "berth-registry", "berth-registry-backup"
USER = "etcd"
CLIENTS, PEERS = 2379, 2380
RESTORE = 3600  # s, of a snapshot of some GiB on a slow disk
MAPPED = 64 << 30  # bytes of address space: etcd maps all of its database
COMPACTED = "10m"  # history that etcd keeps: a run reads page by page as of one revision

UNIT = """[Unit]
Description=The registry of berth.kvm (etcd)
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User=%(user)s
RuntimeDirectory=%(service)s
ExecStartPre=/bin/cp %(etc)s/version %(run)s/version
ExecStart=/usr/bin/etcd --config-file %(etc)s/etcd.json
Restart=always
RestartSec=2
TimeoutStartSec=180
LimitNOFILE=65536
NoNewPrivileges=true
PrivateTmp=true
ProtectHome=true
ProtectSystem=strict
ReadWritePaths=%(state)s

[Install]
WantedBy=multi-user.target
"""
BACKUP_UNIT = """[Unit]
Description=Backup of the registry of berth.kvm

[Service]
Type=oneshot
ExecStart=%(etc)s/backup
"""
BACKUP_TIMER = """[Unit]
Description=Hourly backup of the registry of berth.kvm

[Timer]
OnCalendar=hourly
RandomizedDelaySec=300
Persistent=true

[Install]
WantedBy=timers.target
"""
BACKUP_SCRIPT = """#!/bin/sh
# berth.kvm: a snapshot of the registry, of which the newest %(backups)d are kept.
set -eu
umask 077
export ETCDCTL_API=3 ETCDCTL_USER='root:%(root_password)s'
cd '%(directory)s'
etcdctl --endpoints '%(url)s' --cacert %(etc)s/authority.pem --cert %(etc)s/member.pem --key %(etc)s/member.key \\
  snapshot save new.db >/dev/null
mv new.db "registry-$(date -u +%%Y%%m%%dT%%H%%M%%SZ).db"
ls registry-*.db | sort | head -n -%(backups)d | xargs -r rm --
"""


class RegistryMembersDiffer(BerthError):
    """The registry has other members than the inventory names. Members are added, replaced and removed by a restore; nothing was
    changed."""


class RegistryNotRestored(BerthError):
    """etcd does not take the file for a snapshot of the registry. The member has its own data as before."""


class Member(SystemFiles):
    # --- what is here

    def held(self):
        """Return {request, certificate, authority}, each PEM or empty. Make a missing key."""
        key = "%s/member.key" % ETC
        if not self._read(key) and not self.dry:
            self._put(key, self._new_key(), 0o640, group=_account().pw_gid if os.geteuid() == 0 else None)
        return {
            "request": self._request(key) if self._read(key) else "",
            "certificate": self._read("%s/member.pem" % ETC),
            "authority": self._read("%s/authority.pem" % ETC),
        }

    def version(self):
        """etcd's version, or "" if it is not installed."""
        if shutil.which("etcd", path="/usr/bin") is None:
            return ""
        return run(["etcd", "--version"], error=HostNotPrepared).split("\n")[0].rpartition(" ")[2]

    def is_due(self):
        """Whether it runs with other settings, or another etcd, than it has now."""
        started = self._read("%s/version" % RUN)
        return bool(started) and started != self._read("%s/version" % ETC)

    # --- what it becomes

    def prepare(self, settings, signed, root_password):
        """``settings``: {name, members, quota_gb, hosts_authority, backup_directory, backups}, ``members``: name -> address of each."""
        self._check_members(settings)
        texts = {"user": USER, "service": SERVICE, "etc": ETC, "run": RUN, "state": STATE}
        url = _url(settings["members"][settings["name"]], CLIENTS)
        script = {**texts, "url": url, "directory": settings["backup_directory"], "backups": settings["backups"]}
        unit, config = UNIT % texts, json.dumps(config_of(settings), indent=2, sort_keys=True) + "\n"
        self._make_directory(STATE, for_etcd=True)
        self._make_directory(settings["backup_directory"], for_etcd=False)
        for part, name in (("certificate", "member.pem"), ("authority", "authority.pem")):
            if part in signed:
                self._put("%s/%s" % (ETC, name), signed[part], 0o644)
        clients = self._read("%s/authority.pem" % ETC) + settings["hosts_authority"]
        self._put("%s/clients.pem" % ETC, clients, 0o644)
        self._put("%s/etcd.json" % ETC, config, 0o644)
        self._put("%s/backup" % ETC, BACKUP_SCRIPT % {**script, "root_password": root_password}, 0o700)
        self._put("%s/%s.service" % (UNITS, SERVICE), unit, 0o644)
        self._put("%s/%s.service" % (UNITS, BACKUP), BACKUP_UNIT % texts, 0o644)
        self._put("%s/%s.timer" % (UNITS, BACKUP), BACKUP_TIMER, 0o644)
        # etcd reads a renewed certificate at the next connection, all else when it starts
        runs_with = "\n".join((unit, config, clients, self.version()))
        self._put("%s/version" % ETC, hashlib.sha256(runs_with.encode()).hexdigest() + "\n", 0o644)

    def restore(self, settings, snapshot, token):
        """Put the snapshot in the place of the member's data, which stays beside it. The service does not run. ``token``: the same
        for all members, and new, so that no member with older data comes back among them."""
        self.changed.append("%s/data" % STATE)
        if self.dry:
            return
        self._make_directory(STATE, for_etcd=True)
        data, new, replaced = (self._path("%s/%s" % (STATE, name)) for name in ("data", "new", "replaced"))
        shutil.rmtree(new, ignore_errors=True)
        config = config_of(settings)
        program = "etcdutl" if shutil.which("etcdutl", path="/usr/bin") else "etcdctl"
        told = [
            "--data-dir=%s" % new,
            "--initial-cluster-token=%s" % token,
            *("--%s=%s" % (name, config[name]) for name in ("name", "initial-cluster", "initial-advertise-peer-urls")),
        ]
        run([program, "snapshot", "restore", snapshot, *told], RESTORE, RegistryNotRestored, memory=MAPPED)
        for directory, _directories, files in os.walk(new):
            for path in (directory, *(os.path.join(directory, name) for name in files)):
                self._give_to_etcd(path)
        shutil.rmtree(replaced, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(data, replaced)
        os.rename(new, data)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path("%s/etcd.json" % ETC))  # the members that it names may have been others

    def _check_members(self, settings):
        """What a new member is told of the others counts only at its first start."""
        text = self._read("%s/etcd.json" % ETC)
        if not text or not glob.glob(self._path("%s/data/member" % STATE)):
            return
        has, wanted = json.loads(text)["initial-cluster"], config_of(settings)["initial-cluster"]
        if has != wanted:
            raise RegistryMembersDiffer(
                "the registry's members are %s, and by the inventory %s" % (has, wanted),
                hint=registry_member_hints.change_members(),
            )

    def _new_key(self):
        with tempfile.TemporaryDirectory() as scratch:  # mode 0700
            path = os.path.join(scratch, "key")
            curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
            run(["openssl", "genpkey", *curve, "-out", path], error=HostNotPrepared)
            with open(path, encoding="ascii") as file:
                return file.read()

    def _request(self, key):
        # The subject is only formal: the controller chooses the names that it signs.
        told = ["-new", "-batch", "-subj", "/CN=berth", "-key", self._path(key)]
        return run(["openssl", "req", *told], error=HostNotPrepared)

    # --- files

    def _make_directory(self, path, for_etcd):
        if os.path.isdir(self._path(path)):
            return
        self.changed.append(path)
        if not self.dry:
            durable.make_directories(self._path(path), 0o700)
            if for_etcd:
                self._give_to_etcd(self._path(path))

    def _give_to_etcd(self, path):
        if os.geteuid() == 0:
            os.chown(path, _account().pw_uid, _account().pw_gid, follow_symlinks=False)


def config_of(settings):
    """etcd's own settings: etcd.conf.yml, of which JSON is a part."""
    own = settings["members"][settings["name"]]
    everybody = ["%s=%s" % (name, _url(at, PEERS)) for name, at in sorted(settings["members"].items())]
    return {
        "name": settings["name"],
        "data-dir": "%s/data" % STATE,
        "listen-client-urls": _url(_listen_address(own), CLIENTS),
        "listen-peer-urls": _url(_listen_address(own), PEERS),
        "advertise-client-urls": _url(own, CLIENTS),
        "initial-advertise-peer-urls": _url(own, PEERS),
        "initial-cluster": ",".join(everybody),
        "initial-cluster-token": "berth-registry",
        "initial-cluster-state": "new",
        "client-transport-security": _tls("clients.pem"),
        "peer-transport-security": _tls("authority.pem"),
        "quota-backend-bytes": settings["quota_gb"] << 30,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": COMPACTED,
        "enable-grpc-gateway": True,  # with a file of settings it is off by default
        "pre-vote": True,
        "bcrypt-cost": 4,  # the passwords are random, so nobody guesses them, and each run logs in
    }


def _tls(trusted):
    files = {"cert-file": "member.pem", "key-file": "member.key", "trusted-ca-file": trusted}
    return {"client-cert-auth": True, **{name: "%s/%s" % (ETC, file) for name, file in files.items()}}


def _url(host, port):
    return ("https://[%s]:%d" if ":" in host else "https://%s:%d") % (host, port)


def _listen_address(host):
    """etcd listens at addresses only."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return "0.0.0.0"


def _account():
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        raise HostNotPrepared(
            "there is no user %s: etcd is not installed" % USER, hint=registry_member_hints.install_etcd()
        )
