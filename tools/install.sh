#!/bin/sh
# Builds the native engine from the locked crates and installs svload into .venv, editable:
# edits of Python are live, edits of the engine take another `make setup`. Bytecode: as in deps.sh.
set -eu
. "$(dirname "$0")/env.sh"
tools/preflight.sh >/dev/null
python tools/cargo_lock.py write
log=build/install.log
mkdir -p build
echo "setup: building the native engine (the first time: 1 to 3 minutes on 2 cores)"
maturin develop --release --locked --uv >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    echo "setup: the engine was not built; the whole log: $log" >&2
    if grep -q -- --locked "$log"; then
        echo "setup: a Cargo.toml asks for what engine/Cargo.lock.in does not hold: make relock" >&2
    fi
    exit 1
}
python -m compileall -q src/svload
