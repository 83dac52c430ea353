"""A study's own script as a module, for the tests of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def script(path: Path) -> ModuleType:
    """The file, imported anew under a name of its own; dataclasses look it up in sys.modules."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}".replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
