#!/bin/sh
# Makes .venv and fills it with what requirements/dev.txt pins. uv is quick; pip does the same where uv can't
# (it reads only pip's own configuration, which some machines need to reach their registry).
set -eu
cd "$(dirname "$0")/.."
python=$(tools/preflight.sh)

[ -x .venv/bin/python ] && .venv/bin/python -c 'import pip' 2>/dev/null || "$python" -m venv --clear .venv
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt
.venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements/dev.txt || {
    echo "setup: uv did not get the packages, trying pip" >&2
    .venv/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
}
