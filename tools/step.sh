#!/bin/bash
# step.sh NAME COMMAND…: runs a step and prints how long it took. step.sh --begin resets the clock, step.sh --total
# prints the time since then (less than the sum if steps ran in parallel). The times are kept in build/steps.tsv.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
ledger=build/steps.tsv

case $1 in
--begin)
    printf 'begun\t%s\t0\n' "$EPOCHREALTIME" >"$ledger"
    exit 0
    ;;
--total)
    awk -F'\t' -v now="$EPOCHREALTIME" '
        NR == 1 { begun = $2; next }
        { printf "step %-28s %7.1f s %7.1f s of CPU%s\n", $1 ":", $2, $4, ($3 == 0 ? "" : "  FAILED"); bad += ($3 != 0); cpu += $4 }
        END { printf "step %-28s %7.1f s %7.1f s of CPU\n", "total:", now - begun, cpu; exit bad > 0 }' "$ledger"
    exit
    ;;
esac

name=$1
shift
begun=$EPOCHREALTIME
status=0
"$@" || status=$?
took=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
times >"build/times.$$"  # in a pipe these would be the times of a subshell
cpu=$(awk -F'[ms ]' 'NR == 2 { printf "%.1f", 60 * $1 + $2 + 60 * $4 + $5 }' "build/times.$$")
rm -f "build/times.$$"
printf '%s\t%s\t%s\t%s\n' "$name" "$took" "$status" "$cpu" >>"$ledger"
echo "step $name: $took s, $cpu s of CPU" >&2
exit "$status"
