#!/bin/bash
# make test: all there is. Every layer runs even if one before it failed; each step's time is printed, and pytest's
# closing line is the last of its kind. Where real servers can't be had, one loud line says so (in CI: a failure).
set -uo pipefail
. "$(dirname "$0")/env.sh"
step=tools/step.sh
status=0

$step --begin
# The real servers come from the network while the set-up compiles. Where they can't be had that is no failed step.
rm -f build/no-servers
$step apt bash -c 'tools/apt-install.sh || echo "$?" >build/no-servers' >build/apt.log 2>&1 &
apt=$!
$step setup make setup || { wait "$apt"; exit 1; }

# Much of lint and much of the engine's build has one thread: side by side they fill the machine. Lint's words come whole.
$step lint tools/lint.sh >build/lint.log 2>&1 &
lint=$!
# Unoptimised: built in a third of the time, and with overflow checked.
$step engine cargo test --manifest-path engine/Cargo.toml --locked --quiet --no-fail-fast \
    --workspace --exclude svload-native || status=1
wait "$lint" || status=1
cat build/lint.log >&2

layers="truth or truth_long or look or real"
wait "$apt"
cat build/apt.log >&2
if [ -e build/no-servers ]; then
    if [ "${CI:-}" = true ]; then
        echo "!!! the real servers could not be installed, and in CI that is a failure" >&2
        status=1
    else
        echo "!!! NOT TESTED: the journeys on real servers (Swift, Varnish): see the line above" >&2
        layers="truth or truth_long or look"
    fi
fi
# Tests whose figures must be believed have the machine to themselves; the others run side by side, and the pure ones
# fill what those leave that wait for a load.
$step alone python -m pytest --durations=15 -m "($layers) and alone" || status=1
$step beside tools/beside.sh --durations=15 -m "(pure or $layers) and not alone" || status=1
$step --total || status=1
exit "$status"
