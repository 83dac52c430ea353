#!/bin/sh
# Makes .venv and installs what requirements/dev.txt pins. uv is fast; pip does the same where uv can't
# (uv does not read pip's configuration, which some machines need to reach their registry).
set -eu
. "$(dirname "$0")/env.sh"
python=$(tools/preflight.sh)

.venv/bin/python -c 'import pip' 2>/dev/null || "$python" -m venv --clear .venv
pip="tools/thrice.sh python -m pip install --quiet --require-hashes"
$pip -r requirements/uv.txt
uv pip install --quiet --require-hashes -r requirements/dev.txt || {
    echo "setup: uv did not get the packages, trying pip" >&2
    $pip -r requirements/dev.txt
}
