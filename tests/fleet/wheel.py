"""A stand-in for svload's wheel: it installs in a second, and installs a study's servers once."""

from __future__ import annotations

import zipfile
from pathlib import Path

MODULE = """
import json
import sys
from pathlib import Path

def main():
    if sys.argv[1:] == ["--version"]:
        print("svload VERSION")
    elif sys.argv[1:3] == ["lab", "install"]:
        mark = Path(sys.argv[3], "installed")
        print(json.dumps({"done": [] if mark.exists() else ["all of it"]}))
        mark.touch()
"""


def stand_in(folder: Path, version: str = "0.0.1", needs: str = "", name: str = "svload") -> Path:
    """Write NAME-VERSION-py3-none-any.whl to `folder`; `needs` is a package that it requires."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}_stand_in.py": MODULE.replace("VERSION", version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}_stand_in:main\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)
    return path
