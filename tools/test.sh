#!/bin/bash
# make test: all there is. Every layer runs even if one before it failed; each step's time is printed, and pytest's
# closing line is the last of its kind. Where real servers can't be had, one loud line says so (in CI: a failure).
set -uo pipefail
. "$(dirname "$0")/env.sh"
step=tools/step.sh
status=0

$step --begin
$step setup make setup || exit 1
$step lint tools/lint.sh || status=1
# Unoptimised: built in a third of the time, and with overflow checked.
$step engine cargo test --manifest-path engine/Cargo.toml --locked --quiet --no-fail-fast \
    --workspace --exclude svload-native || status=1

# The pure layer makes no load, so that its tests may run side by side; the others measure, one at a time.
$step pure python -m pytest -q -n 2 -m pure || status=1

layers="truth or truth_long or look or real"
if ! $step apt tools/apt-install.sh; then
    if [ "${CI:-}" = true ]; then
        echo "!!! the real servers could not be installed, and in CI that is a failure" >&2
        status=1
    else
        echo "!!! NOT TESTED: the journeys on real servers (Swift, Varnish): see the line above" >&2
        layers="truth or truth_long or look"
    fi
fi
$step whole python -m pytest --durations=15 -m "$layers" || status=1
$step --total || status=1
exit "$status"
