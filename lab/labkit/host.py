# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host of the lab: its files, its birth as a set of namespaces, its end.

A host is a process tree of its own (pid, mount, net, uts, ipc, cgroup namespaces) on an overlay of this machine's root.
The end of its pid 1 is the end of every process in it, of its mounts and of its links: a power cut is one SIGKILL.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

from . import network
from .fakehost import write_fake_hardware
from .run import LabError, children_of, environment_of, is_alive, read_pid, run, wait_for
from .size import Size

HOST_PARTS = Path(__file__).resolve().parent.parent / "host"
INIT = HOST_PARTS / "sysvinit"
SHIM = "/usr/lib/berth-lab-shim.so"  # where the shim is inside a host
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# directories of which a host sees nothing that the machine has there
OPAQUE = (
    "root",
    "home",
    "etc/ssh",
    "etc/berth",
    "etc/libvirt/qemu",
    "etc/libvirt/hooks",
    "etc/libvirt/storage",
    "etc/libvirt/secrets",
    "etc/pki",
    "var/lib/berth",
    "var/log/libvirt",
    "var/cache/libvirt",
    "srv",
)

SSHD_CONFIG = """\
ListenAddress %(address)s
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
Subsystem sftp /usr/lib/openssh/sftp-server
"""

LIBVIRTD_CONF = """\
host_uuid = "%(uuid)s"
auth_unix_rw = "none"
log_outputs = "2:file:/var/log/libvirt/libvirtd.log"
"""

# no AppArmor, cgroups or device nodes can be made in here; all else is as Debian ships it
QEMU_CONF = """\
security_driver = "none"
cgroup_controllers = []
namespaces = []
migration_host = "%(address)s"
"""

# read by /etc/init.d/libvirtd before it starts the daemon
LIBVIRTD_DEFAULTS = """\
LIBVIRTD_ARGS=""
LD_PRELOAD=%(shim)s
BERTH_LAB_MEM_KIB=%(mem_kib)d
SYSTEMD_DEVICE_VERIFY_SYSFS=0
"""


class Host:
    def __init__(self, lab, number):
        self.lab = lab
        self.number = number
        self.name = "%s%d" % (lab.name, number)
        self.directory = lab.state / "hosts" / self.name
        self.upper = self.directory / "upper"

    @property
    def address(self):
        return "%s.%d" % (self.lab.management, 10 + self.number)

    @property
    def guest_address(self):
        return "%s.%d" % (self.lab.guests, 10 + self.number)

    @property
    def uuid(self):
        """As firmware would give it: the same at every boot, another one in another lab."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, "berth-lab:%s" % self.directory))

    @property
    def public_key(self):
        return " ".join((self.upper / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2])

    @property
    def size(self):
        return Size(**json.loads((self.directory / "size.json").read_text()))

    @property
    def is_made(self):
        return (self.directory / "made").exists()

    def link(self, kind):
        return "bl%dh%d%s" % (self.lab.slot, self.number, kind)

    # --- files
    def make(self, size):
        """Write what makes this host differ from the machine; done once, a host that is there keeps what it has."""
        if self.is_made:
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        for part in ("work", "root"):
            (self.directory / part).mkdir(parents=True)
        for part in OPAQUE:
            (self.upper / part).mkdir(parents=True)
            if part == "var/lib/berth":  # as the role would make it
                (self.upper / part).chmod(0o700)
            os.setxattr(self.upper / part, "trusted.overlay.opaque", b"y")
        (self.directory / "size.json").write_text(json.dumps(size.to_dict()))
        self._make_disk(size)
        self._make_ssh()
        self._make_configuration(size)
        (self.directory / "made").touch()

    def _write(self, path, text, mode=0o644):
        target = self.upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def _make_disk(self, size):
        """The file system of /var/lib/libvirt: sparse, so that it costs what is written to it."""
        image = self.directory / "disk.img"
        with open(image, "wb") as handle:
            handle.truncate(size.disk)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", image)

    def _make_ssh(self):
        run(
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            self.name,
            "-f",
            self.upper / "etc/ssh/ssh_host_ed25519_key",
        )
        self._write("etc/ssh/sshd_config", SSHD_CONFIG % {"address": self.address})
        self._write("etc/ssh/ssh_known_hosts", "")
        ssh = self.upper / "root/.ssh"
        ssh.mkdir()
        for directory in (self.upper / "root", ssh):
            directory.chmod(0o700)
        public = self.lab.key.with_suffix(".pub").read_text()
        self._write("root/.ssh/authorized_keys", public, 0o600)
        self._write("root/.ssh/id_ed25519", self.lab.key.read_text(), 0o600)
        self._write("root/.ssh/id_ed25519.pub", public)
        self._write("root/.bashrc", "export PATH=%s\n" % PATH)

    def _make_configuration(self, size):
        values = {"address": self.address, "uuid": self.uuid, "shim": SHIM, "mem_kib": size.mem * 1024}
        self._write("etc/hostname", self.name + "\n")
        self._write("etc/machine-id", uuid.UUID(self.uuid).hex + "\n")
        self._write("etc/libvirt/libvirtd.conf", LIBVIRTD_CONF % values)
        self._write("etc/libvirt/qemu.conf", QEMU_CONF % values)
        self._write("etc/default/libvirtd", LIBVIRTD_DEFAULTS % values)
        for service in ("libvirtd", "berth-registry"):
            self._write("etc/init.d/%s" % service, (HOST_PARTS / ("%s.init" % service)).read_text(), 0o755)
        packages = "usr/lib/python3/dist-packages/"
        self._write(packages + "berth_lab_module_cache.py", (HOST_PARTS / "module_cache.py").read_text())
        self._write(packages + "berth_lab_module_cache.pth", "import berth_lab_module_cache\n")
        (self.upper / "var/cache/berth-lab").mkdir(parents=True)
        shim = self.upper / SHIM.lstrip("/")
        shim.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.lab.cache / "shim.so", shim)
        write_fake_hardware(self.directory / "sys", self.directory / "proc", size)

    def remove(self):
        """Everything on disk; the host must be down."""
        shutil.rmtree(self.directory)

    # --- life
    @property
    def pid(self):
        """The pid of this host's pid 1 as seen from the machine, 0 when the host is down."""
        pid = read_pid(self.directory / "pid1")
        alive = pid and is_alive(pid) and environment_of(pid).get("BERTH_LAB_HOST") == str(self.directory)
        return pid if alive else 0

    def boot(self):
        """Start the host; wait_ready() tells when it answers."""
        if self.pid:
            return
        (self.directory / "pid1").unlink(missing_ok=True)
        environment = {
            "PATH": PATH,
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "BERTH_LAB_HOST": str(self.directory),
            "HOST_NAME": self.name,
            "HOST_ADDRESS": self.address,
            "GUEST_ADDRESS": self.guest_address,
            "LAB_STATE": str(self.lab.state),
            "LAB_KVM": "1" if self.size.kvm else "",
        }
        namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        with open(self.directory / "boot.log", "wb") as log:
            keeper = subprocess.Popen(
                ["unshare", *namespaces, "--fork", "--kill-child", "--propagation", "private", str(INIT)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pid = wait_for(
            lambda: (children_of(keeper.pid) or [0])[0] if keeper.poll() is None else -1, 10, "start of " + self.name
        )
        if pid < 0:
            raise LabError("%s did not start: %s" % (self.name, (self.directory / "boot.log").read_text().strip()))
        (self.directory / "pid1").write_text(str(pid))
        network.plug_in(self.lab, self, pid)

    def wait_ready(self):
        """Until sshd listens and libvirtd answers inside, a minute at most."""
        pid = self.pid
        wait_for(
            lambda: self.is_ready or not is_alive(pid),
            60,
            "%s to answer (see %s)" % (self.name, self.directory / "boot.log"),
        )
        if not self.is_ready:
            raise LabError(
                "%s died while starting: %s" % (self.name, (self.directory / "boot.log").read_text().strip())
            )

    @property
    def is_ready(self):
        return bool(self.pid) and os.path.exists("/proc/%d/root/run/lab-ready" % self.pid)

    def power_cut(self):
        """Everything in the host is gone at once, and nobody says goodbye on the network."""
        pid = self.pid
        network.set_links(self, "down")
        if pid:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not os.path.exists("/proc/%d" % pid), 10, "end of " + self.name)
        (self.directory / "pid1").unlink(missing_ok=True)
        network.unplug(self)
        wait_for(self._disk_is_free, 10, "release of %s's disk" % self.name)

    def _disk_is_free(self):
        """The kernel detaches the loop device shortly after the last mount namespace that had it."""
        image = str(self.directory / "disk.img")
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            try:
                if backing.read_text().strip() == image:
                    return False
            except OSError:
                continue
        return True

    def power_off(self):
        """In order: guests ended (their caches flushed), libvirtd stopped, then the power goes."""
        if self.pid:
            guests = self.run("virsh", "-q", "list", "--name", check=False).stdout.split()
            for guest in guests:
                self.run("virsh", "-q", "destroy", "--graceful", guest, check=False)
            self.run("service", "libvirtd", "stop", check=False)
        self.power_cut()

    # --- what runs inside
    def enter(self):
        """The words to put before a command so that it runs inside."""
        if not self.pid:
            raise LabError("%s is down" % self.name)
        return [
            "nsenter",
            "-t",
            str(self.pid),
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            "--root",
            "--wdns=/root",
            "--",
            "env",
            "-i",
            "PATH=" + PATH,
            "HOME=/root",
            "LC_ALL=C.UTF-8",
            "TERM=" + os.environ.get("TERM", "dumb"),
        ]

    def run(self, *argv, check=True):
        return run(*self.enter(), *argv, check=check)

    def qemu_pid(self, domain):
        """The pid, inside, of a running guest's QEMU."""
        done = self.run("cat", "/run/libvirt/qemu/%s.pid" % domain, check=False)
        if done.returncode:
            raise LabError("%s: no guest %s runs here" % (self.name, domain))
        return done.stdout.strip()
