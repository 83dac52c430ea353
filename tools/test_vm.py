"""make test-vm: the limits of version 2 of the kernel's control groups, and netem, in Debian's own kernel
under qemu's software emulation.

It covers what this machine's kernel may lack; only correctness, because an emulated machine is about twenty
times slower. The kernel is fetched by apt once and kept in build/vm. LEFT=seconds ends it then: checks for
which there was no time are not failures. Exit 0: all checks that were run passed; 1: some did not; 3: not
possible here (one line gives the reason).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "vm"
THRICE = ROOT / "tools" / "thrice.sh"
QEMU = "qemu-system-x86_64"
NEEDED = {
    QEMU: "qemu-system-x86",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "tc": "iproute2",
    "dpkg-deb": "dpkg",
}
MODULES = ("sch_netem",)
BOUND_S = 900
PASSED = "vm: exit 0"
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /tmp /run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for module in /modules/*.ko; do insmod "$module"; done
ip link set lo up
export PATH=/bin:/usr/bin:/sbin:/usr/sbin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/svload
{python} -P /svload/inside.py
echo "vm: exit $?"
poweroff -f
"""


class NotHereError(Exception):
    """Raised if this machine cannot run the checks."""


def main() -> int:
    """Build the small system, boot it, pass on its output."""
    try:
        kernel, modules = _kernel()
        image = _image(modules)
    except NotHereError as why:
        print(f"not here: {why}", file=sys.stderr)
        return 3
    return _boot(kernel, image)


def _kernel() -> tuple[Path, Path]:
    """Return Debian's kernel and the folder of its modules, fetched if they are missing."""
    lacking = [program for program in NEEDED if shutil.which(program, path=PATH) is None]
    if lacking:
        packages = " ".join(sorted({NEEDED[name] for name in lacking}))
        raise NotHereError(
            f"{', '.join(lacking)} lacks; as root on Debian: apt-get install --no-install-recommends {packages}"
        )
    BUILD.mkdir(parents=True, exist_ok=True)
    if not list(BUILD.glob("kernel/boot/vmlinuz-*")):
        try:
            result = subprocess.run(
                ["apt-cache", "depends", "linux-image-amd64"], check=True, capture_output=True, text=True
            )
            found = re.search(r"Depends: (linux-image-\S+)", result.stdout)
            if found is None:
                raise NotHereError("apt knows no linux-image-amd64")
            subprocess.run(
                [THRICE, "apt-get", "-o", "APT::Sandbox::User=root", "download", "-qq", found[1]],
                cwd=BUILD,
                check=True,
            )
            [package] = BUILD.glob("linux-image-*.deb")
            subprocess.run(["dpkg-deb", "-x", str(package), str(BUILD / "kernel")], check=True)
            package.unlink()
        except (OSError, subprocess.CalledProcessError) as why:
            raise NotHereError(f"Debian's kernel could not be fetched ({why})") from why
    [kernel] = BUILD.glob("kernel/boot/vmlinuz-*")
    [modules] = BUILD.glob("kernel/lib/modules/*")
    return kernel, modules


def _image(modules: Path) -> Path:
    """Return the system's files as one archive: busybox, this Python's standard library, tc, svload's
    source."""
    root = BUILD / "root"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "modules", "svload"):
        (root / folder).mkdir(parents=True)
    python = Path(os.path.realpath(sys.executable))
    tc = Path(os.path.realpath(shutil.which("tc", path=PATH) or "tc"))
    shutil.copy(shutil.which("busybox", path=PATH) or "busybox", root / "bin/busybox")
    library = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns(
        "test",
        "tests",
        "idlelib",
        "ensurepip",
        "tkinter",
        "lib2to3",
        "site-packages",
        "dist-packages",
        "config-*",
    )
    shutil.copytree(
        library,
        root / library.relative_to("/"),
        ignore=ignored,
        symlinks=False,
        ignore_dangling_symlinks=True,
    )
    programs = [python, tc, *(root / library.relative_to("/")).glob("lib-dynload/*.so")]
    threads = Path("/lib").glob("*/libgcc_s.so.1")  # the C library loads it when a thread ends
    for file in [python, tc, *_libraries(programs), *threads]:
        _copy(file, root)
    for name in MODULES:
        [module] = modules.rglob(f"{name}.ko")
        shutil.copy(module, root / "modules" / module.name)
    shutil.copytree(
        ROOT / "src" / "svload",
        root / "svload" / "svload",
        ignore=shutil.ignore_patterns("*.so", "__pycache__"),
    )
    shutil.copy(ROOT / "tests" / "vm" / "inside.py", root / "svload")
    init = root / "init"
    init.write_text(INIT.format(python=python))
    init.chmod(0o755)
    names = subprocess.run(["find", ".", "-print0"], cwd=root, check=True, capture_output=True).stdout
    image = BUILD / "root.cpio"
    with image.open("wb") as out:
        subprocess.run(
            ["cpio", "--null", "-o", "-H", "newc", "--quiet"], cwd=root, check=True, input=names, stdout=out
        )
    return image


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that they load, and the loader."""
    found: set[Path] = set()
    for program in programs:
        result = subprocess.run(["ldd", str(program)], check=False, capture_output=True, text=True).stdout
        found |= {Path(path) for path in re.findall(r"(/\S+) \(0x", result)}
    return found


def _copy(file: Path, root: Path) -> None:
    target = root / file.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _boot(kernel: Path, image: Path) -> int:
    command = [
        QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1536", "-nographic", "-no-reboot", "-nic", "none",
        "-kernel", str(kernel), "-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all",
    ]  # fmt: skip
    began, left_s = time.monotonic(), float(os.environ.get("LEFT") or BOUND_S)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as machine:
        assert machine.stdout is not None
        passed, failed, last = False, False, ""
        end = threading.Timer(min(left_s, BOUND_S), machine.kill)
        end.start()
        try:
            os.set_blocking(machine.stdout.fileno(), True)
            for line in machine.stdout:
                last = line.rstrip()
                passed |= PASSED in line
                failed |= "FAILED" in line
                if "vm: " in line or not passed:
                    print(last, flush=True)
        finally:
            end.cancel()
            machine.kill()
    if not passed and not failed and left_s < BOUND_S and time.monotonic() - began > left_s:
        print(f"not run: no time was left after {last}")
        return 0
    if not passed:
        print(f"the machine ended after {time.monotonic() - began:.0f} s with: {last}", file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
