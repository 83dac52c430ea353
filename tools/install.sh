#!/bin/sh
# Builds the native engine from the locked crates and installs svload into .venv, editable:
# Python edits are live, engine edits need another `make setup`.
set -eu
cd "$(dirname "$0")/.."
tools/preflight.sh >/dev/null
.venv/bin/python tools/cargo_lock.py write
rm -f .venv/lib/python3*/site-packages/_svload_interim.pth
VIRTUAL_ENV=$PWD/.venv PATH=$PWD/.venv/bin:$PATH \
    .venv/bin/maturin develop --release --locked --quiet --uv --skip-install
# The package itself (its files and its command) without asking a registry for anything.
