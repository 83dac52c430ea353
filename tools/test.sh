#!/bin/bash
# make test: all tests but long journeys, those on real servers, and timing. Every layer runs even if one before it
# failed. The time of each step is printed, and pytest's summary comes last. If real servers can't be installed, one loud
# line says so (in CI: a failure).
set -uo pipefail
. "$(dirname "$0")/env.sh"
step=tools/step.sh
status=0
mkdir -p build

# alongside NAME COMMAND…: runs a step in parallel, with its output in build/NAME.log; it ends with this script,
# however that ends.
declare -A started
alongside() {
    setsid "$step" "$@" >"build/$1.log" 2>&1 &
    started[$1]=$!
}
# ended NAME: waits for the step and prints its output; returns its exit status.
ended() {
    local code=0
    wait "${started[$1]}" || code=$?
    unset "started[$1]"
    cat "build/$1.log" >&2
    return "$code"
}
trap 'for group in "${started[@]}"; do kill -- "-$group" 2>/dev/null; done' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

found=$(tools/preflight.sh) && "$found" tools/cargo_lock.py write || exit 1
$step --begin
# The set-up waits for the network and ends with one thread; much of lint and of the engine's build has one thread
# too, so together they use the whole machine. Missing real servers are no failed step. The engine is not optimised
# here: it is built in a third of the time, and checks overflow.
rm -f build/no-servers
$step crates tools/thrice.sh cargo fetch --quiet --locked --manifest-path engine/Cargo.toml --target "$(rustc -vV | sed -n 's/^host: //p')" || exit 1
alongside apt bash -c 'tools/apt-install.sh || echo "$?" >build/no-servers'
alongside engine cargo test --manifest-path engine/Cargo.toml --locked --quiet --no-fail-fast --workspace --exclude svload-native
$step setup make setup || exit 1
alongside lint tools/lint.sh
ended engine || status=1
ended lint || status=1
ended apt

layers="truth or look or (real and smoke)"
if [ -e build/no-servers ]; then
    if [ "${CI:-}" = true ]; then
        echo "!!! the real servers could not be installed, and in CI that is a failure" >&2
        status=1
    else
        echo "!!! NOT TESTED: the journeys on real servers (Swift, Varnish): see the line above" >&2
        layers="truth or look"
    fi
fi
$step tests tools/beside.sh --durations=15 -m "(pure or $layers) and not (timing or long)" || status=1
$step --total || status=1
exit "$status"
