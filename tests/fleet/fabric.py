"""Machines as namespaces: each has its own network, sshd, home and monotonic clock; no packet leaves this
machine. Runs within them, and what is left afterwards.

A namespace in the middle holds a bridge without an uplink; whatever commands the fleet runs inside it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from svload.store import RunDir

NETWORK = "10.203.77"
SSH_PORT = 25200


@dataclass
class Host:
    """One machine. Its clock is `ahead_s` ahead; `bare`: it has no working Python; `small`: it has little
    disk space; its link carries `rate` each way, in tc's notation; `own_tmp`: a /tmp that no other machine
    sees."""

    name: str
    number: int
    ahead_s: int
    bare: bool = False
    small: bool = False
    rate: str = ""
    own_tmp: bool = False

    @property
    def address(self) -> str:
        return f"{NETWORK}.{self.number}"


@dataclass
class Fabric:
    """The machines, and commands inside the namespace that reaches them."""

    folder: Path
    middle: str
    hosts: list[Host]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def namespace(self, host: Host) -> str:
        return f"{self.middle}h{host.number}"

    def inside(
        self, words: Sequence[str], environment: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the middle to its end."""
        return completed(
            ["ip", "netns", "exec", self.middle, *words],
            cwd=self.folder,
            env={**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"), **environment},
        )

    def svload(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.inside([sys.executable, "-m", "svload", *words], self.own)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    @property
    def own(self) -> dict[str, str]:
        """Return variables that keep it apart from other tests."""
        names = {f"SVLOAD_{name.upper()}": name for name in ("state", "cache", "lock")} | {"TMPDIR": "tmp"}
        return {variable: str(self.folder / name) for variable, name in names.items()}

    def on(self, host: Host, *words: str) -> str:
        """Return the output of a command in a host's network."""
        done = completed(["ip", "netns", "exec", self.namespace(host), *words], check=True)
        return done.stdout.strip()

    def home(self, host: Host) -> Path:
        return self.folder / host.name / "home"

    def temporary(self, host: Host) -> Path:
        """Return its /tmp, if it has its own; the fabric's folder is in it."""
        return self.folder / host.name / "tmp"

    def labs(self, host: Host) -> Path:
        return self.home(host) / ".local/state/svload/labs"

    def inventory(self, text: str) -> str:
        """Write an inventory with `text`, after the variables by which SSH reaches these machines."""
        path = self.folder / "hosts.yaml"
        options = f"-F /dev/null -o UserKnownHostsFile={self.folder}/known_hosts -o StrictHostKeyChecking=yes"
        path.write_text(
            "all:\n  vars:\n"
            "    ansible_user: root\n"
            f"    ansible_port: {SSH_PORT}\n"
            f"    ansible_ssh_private_key_file: {self.folder}/id\n"
            f'    ansible_ssh_common_args: "{options} -o ControlPersist=5s"\n' + text
        )
        return str(path)

    def fleet(
        self,
        generators: Sequence[Host],
        servers: Sequence[Host] = (),
        sites: Mapping[str, Sequence[Host]] = {},
        **variables: str,
    ) -> str:
        """Write an inventory with these machines, those of them that are at sites, and variables of all."""

        def hosts(of: Sequence[Host]) -> dict[str, Any]:
            known = [one for one in of if one in (*generators, *servers)]
            return {"hosts": {one.name: {"ansible_host": one.address} for one in known}}

        groups = {"generators": hosts(generators), "servers": hosts(servers)}
        groups["sites"] = {"children": {site: hosts(of) for site, of in sites.items() if hosts(of)["hosts"]}}
        lines = [f"    {name}: {value}" for name, value in variables.items()]
        lines += [f"{name}: {json.dumps(group)}" for name, group in groups.items() if any(group.values())]
        return self.inventory("\n".join(lines) + "\n")

    def study(self, name: str, text: str) -> str:
        """Write a study to a folder of this name; return its path."""
        path = self.folder / name / "study.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)


@contextmanager
def fabric(hosts: Sequence[Host]) -> Iterator[Fabric]:
    """Start the machines within seconds; all are gone when the block ends."""
    made = Fabric(Path(tempfile.mkdtemp(prefix="svf")), f"svf{os.getpid() % 100_000}", list(hosts))
    (made.folder / "tmp").mkdir()
    try:
        _ip("netns", "add", made.middle)
        _ip("-n", made.middle, "link", "set", "lo", "up")
        _ip("-n", made.middle, "link", "add", "br0", "type", "bridge")
        _ip("-n", made.middle, "link", "set", "br0", "up")
        _ip("-n", made.middle, "addr", "add", f"{NETWORK}.254/24", "dev", "br0")
        _key(made.folder / "id")
        for host in hosts:
            _connect(made, host)
            made.processes.append(_serve(made, host))
        for host in hosts:
            wait_until(lambda host=host: is_open(made, host, SSH_PORT))
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait(HANG_S)
        for name in (*map(made.namespace, hosts), made.middle):
            completed(["ip", "netns", "del", name])
        shutil.rmtree(made.folder, ignore_errors=True)


def _ip(*words: str) -> None:
    completed(["ip", *words], check=True)


def _key(path: Path) -> None:
    completed(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def _connect(made: Fabric, host: Host) -> None:
    name = made.namespace(host)
    _ip("netns", "add", name)
    peer = f"peer name p{host.number} netns {made.middle}"
    _ip(*f"link add eth0 netns {name} type veth {peer}".split())
    _ip("-n", made.middle, "link", "set", f"p{host.number}", "master", "br0", "up")
    _ip("-n", name, "link", "set", "lo", "up")
    _ip("-n", name, "addr", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", name, "link", "set", "eth0", "up")
    if host.rate:
        for namespace, device in ((name, "eth0"), (made.middle, f"p{host.number}")):
            shape = f"tc qdisc add dev {device} root tbf rate {host.rate} burst 16kb latency 200ms"
            _ip("netns", "exec", namespace, *shape.split())


def _serve(made: Fabric, host: Host) -> subprocess.Popen[bytes]:
    folder = made.folder / host.name
    (folder / "home").mkdir(parents=True)
    _key(folder / "key")
    with open(made.folder / "known_hosts", "a") as known:
        known.write(f"[{host.address}]:{SSH_PORT} {' '.join((folder / 'key.pub').read_text().split()[:2])}\n")
    (folder / "sshd_config").write_text(
        f"Port {SSH_PORT}\nListenAddress {host.address}\nHostKey {folder}/key\nPidFile {folder}/pid\n"
        f"AuthorizedKeysFile {made.folder}/id.pub\nPasswordAuthentication no\nKbdInteractiveAuthentication "
        f"no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\nStrictModes no\nUseDNS no\nPrintMotd no\nMaxStartups "
        "100:30:200\nMaxSessions 100\n"
        f"LogLevel ERROR\nSubsystem sftp internal-sftp\nSetEnv SVLOAD_LOCK={folder}/lock\n"
    )
    # Ansible's remote home is root's: each machine has its own.
    little = "mount -t tmpfs -o size=8m tmpfs /root\n" if host.small else ""
    tmp = ""
    if host.own_tmp:
        there = made.temporary(host)
        (there / made.folder.relative_to("/tmp")).mkdir(parents=True)
        tmp = f"mount --rbind {made.folder} {there / made.folder.relative_to('/tmp')}\nmount --rbind {there} /tmp\n"
    hide = "for p in /usr/bin/python3*; do mount --bind /bin/false $p; done\n" if host.bare else ""
    (folder / "init.sh").write_text(
        f"mount --make-rprivate /\n{_python_stays(folder)}mount --rbind {folder}/home /root\nmkdir -p /run/sshd\nhostname "
        f"{host.name}\n{hide}{little}{tmp}"
        f"exec /usr/sbin/sshd -D -e -f {folder}/sshd_config\n"
    )
    with open(folder / "log", "wb") as log:
        return subprocess.Popen(
            [
                "nsenter", f"--net=/run/netns/{made.namespace(host)}",
                "unshare", "--mount", "--uts", "--ipc", "--pid", "--time", "--monotonic", str(host.ahead_s),
                "--fork", "--kill-child", "--mount-proc", "sh", str(folder / "init.sh"),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _python_stays(folder: Path) -> str:
    """Return commands that make this test's Python available on the machine too if it lies in root's home."""
    prefix = Path(sys.base_prefix)
    if not prefix.is_relative_to("/root"):
        return ""
    there = folder / "home" / prefix.relative_to("/root")
    return f"mkdir -p {there}\nmount --bind {prefix} {there}\n"


def is_open(made: Fabric, host: Host, port: int) -> bool:
    """Return whether something listens on a host's port, seen from the middle."""
    words = [sys.executable, "-c", f"import socket; socket.create_connection(('{host.address}', {port}), 1)"]
    return made.inside(words).returncode == 0


def load(machines: Fabric, *words: str) -> RunDir:
    """Return the run that a command made."""
    machines.svload("run", *words, "--json")
    return newest(machines)


def newest(machines: Fabric) -> RunDir:
    runs = sorted((machines.folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    return RunDir([path for path in runs if path.is_dir() and not path.is_symlink()][-1])


def left(machines: Fabric) -> list[str]:
    """Return the command lines of generators, agents and workers that still run anywhere."""
    names = [machines.middle, *(machines.namespace(host) for host in machines.hosts)]
    found = [words for name in names for words in processes(name).values()]
    return [" ".join(words) for words in found if any(word.startswith("svload.") for word in words)]


def processes(namespace: str) -> dict[int, list[str]]:
    """Return pid → command line of the processes in a network."""
    network, found = f"net:[{os.stat(f'/run/netns/{namespace}').st_ino}]", {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(folder / "ns/net") == network:
                words = (folder / "cmdline").read_bytes().decode(errors="replace")
                found[int(folder.name)] = words.split("\0")
    return found


def begin(machines: Fabric, *words: str) -> subprocess.Popen[str]:
    """Start a run that continues while the test acts."""
    return subprocess.Popen(
        ["ip", "netns", "exec", machines.middle, sys.executable, "-m", "svload", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=machines.folder,
        env={**os.environ, **machines.own}, start_new_session=True,
    )  # fmt: skip


def process(machines: Fabric, host: Host | None, module: str) -> int:
    """Return the pid of a process that runs a module in a host's network, or in the middle."""
    name = machines.middle if host is None else machines.namespace(host)
    for pid, words in processes(name).items():
        # sshd and its sessions show their state in their command lines
        if module in words or module in {word.partition(": ")[2] for word in words}:
            return pid
    raise LookupError(f"no {module} at {name}")
