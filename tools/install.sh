#!/bin/sh
# Builds the native engine from the locked crates and installs svload into .venv, editable:
# changes of Python are live, changes of the engine need another `make setup`.
set -eu
. "$(dirname "$0")/env.sh"
tools/preflight.sh >/dev/null
python tools/cargo_lock.py write
log=build/install.log
mkdir -p build
# Where Python may write no bytecode (PYTHONDONTWRITEBYTECODE, as in many images), every command would compile its libraries
# again. It is made in parallel with the engine, whose build has one thread at its begin and end.
nice python -m compileall -q -x '/tests/' .venv/lib src/svload >/dev/null 2>&1 &
bytecode=$!
echo "setup: building the native engine (the first time: 2 to 4 minutes on 2 cores)"
tools/thrice.sh cargo fetch --quiet --locked --manifest-path engine/Cargo.toml --target "$(rustc -vV | sed -n 's/^host: //p')"
maturin develop --release --locked --uv >"$log" 2>&1 || {
    kill "$bytecode" 2>/dev/null || true
    tail -n 40 "$log" >&2
    echo "setup: the engine was not built; the whole log: $log" >&2
    if grep -q -- --locked "$log"; then
        echo "setup: a Cargo.toml asks for what engine/Cargo.lock.in does not hold: make relock" >&2
    fi
    exit 1
}
wait "$bytecode" || true  # a library may contain files for another Python
