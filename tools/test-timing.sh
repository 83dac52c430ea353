#!/bin/bash
# test-timing.sh ARGUMENTS…: runs the timing tests, each in a calm moment. PLANTED=engine or server: only those that
# name it in their mark, with a delay planted there, which each of them must detect.
set -euo pipefail
. "$(dirname "$0")/env.sh"
if [ -n "${PLANTED:-}" ]; then
    mkdir -p build
    cc -O1 -Wall -Werror -shared -fPIC -o build/delay.so tests/planted/delay.c -ldl
    export LD_PRELOAD=$ROOT/build/delay.so PYTHONPATH=$ROOT/tests/planted PLANTED_DELAY=$PLANTED
fi
exec python -m pytest -p tests.calm -m timing "$@"
