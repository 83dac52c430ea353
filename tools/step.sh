#!/bin/bash
# step.sh NAME COMMAND…: runs a step and says how long it took. step.sh --total says how long all took,
# step.sh --begin starts anew. The times stand in build/steps.tsv.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
ledger=build/steps.tsv

case $1 in
--begin)
    : >"$ledger"
    exit 0
    ;;
--total)
    awk -F'\t' '
        { printf "step %-28s %7.1f s%s\n", $1 ":", $2, ($3 == 0 ? "" : "  FAILED"); total += $2; bad += ($3 != 0) }
        END { printf "step %-28s %7.1f s\n", "total:", total; exit bad > 0 }' "$ledger"
    exit
    ;;
esac

name=$1
shift
begun=$EPOCHREALTIME
status=0
"$@" || status=$?
took=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
printf '%s\t%s\t%s\n' "$name" "$took" "$status" >>"$ledger"
echo "step $name: $took s" >&2
exit "$status"
