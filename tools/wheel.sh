#!/bin/sh
# Builds the wheel into a folder (dist), with the requirements.txt that it was tested with. One wheel works for every
# CPython from 3.11 on (abi3).
set -eu
. "$(dirname "$0")/env.sh"
out=${1:-dist}
tools/preflight.sh >/dev/null
python tools/cargo_lock.py write
mkdir -p build "$out"
rm -f "$out"/svload-*.whl
maturin build --release --locked --out "$out" >build/wheel.log 2>&1 || {
    tail -n 40 build/wheel.log >&2
    echo "wheel: it was not built; the whole log: build/wheel.log" >&2
    exit 1
}
cp requirements/machine.txt "$out/requirements.txt"
ls "$out"/svload-*.whl
