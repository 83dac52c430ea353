#!/bin/sh
# Resolves both kinds of dependencies again and writes lock files without addresses. UPGRADE=1 takes newer versions.
set -eu
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
set -- --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --no-annotate ${UPGRADE:+--upgrade}

echo uv | "$uv" pip compile "$@" -o requirements/uv.txt - >/dev/null
"$uv" pip compile "$@" -o requirements/run.txt pyproject.toml >/dev/null
"$uv" pip compile "$@" --extra machine -c requirements/run.txt -o requirements/machine.txt pyproject.toml >/dev/null
"$uv" pip compile "$@" --extra dev -c requirements/machine.txt -o requirements/dev.txt pyproject.toml >/dev/null
.venv/bin/python tools/cargo_lock.py relock

if grep -n '://' requirements/*.txt engine/Cargo.lock.in; then
    echo "relock: a lock file holds an address (above)" >&2
    exit 1
fi
