"""``python -m svload`` is ``svload``."""

from __future__ import annotations

from svload.cli.main import main

if __name__ == "__main__":
    main()
