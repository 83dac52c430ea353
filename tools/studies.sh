#!/bin/bash
# make studies: runs the studies on their real servers, one after another, each with its tables, and prints each
# command's wall time and exit code. ONLY=002 or ONLY=001,005: only these. PROFILE=short: longer runs, two hours in all.
# Runs and reports are kept in build/studies. Exit codes 1 and 4 of a run are results (a threshold failed, numbers are
# REFUSED); the first other one ends it all.
set -uo pipefail
. "$(dirname "$0")/env.sh"
out=build/studies
studies=(001-svload 002-factorial-redis 004-swift-locust 005-file-server)

case ${PROFILE:=demo} in
demo) bound_s=1200 ;;
short) bound_s=7200 ;;
*) echo "PROFILE=$PROFILE: it is demo or short" >&2 && exit 2 ;;
esac
for number in ${ONLY:+${ONLY//,/ }}; do
    [[ " ${studies[*]}" == *" $number-"* ]] || { echo "ONLY=$ONLY: the studies are ${studies[*]%%-*}" >&2 && exit 2; }
done

# told COMMAND…: runs it for at most $bound_s; returns its exit status.
told() {
    local begun=$SECONDS code=0
    printf '\n$ %s\n' "$*"
    timeout --foreground --signal=INT --kill-after=60 "$bound_s" "$@" || code=$?
    echo "exit $code after $((SECONDS - begun)) s: $*"
    return "$code"
}

for study in "${studies[@]}"; do
    [[ -z ${ONLY:-} || ",$ONLY," == *",${study%%-*},"* ]] || continue
    profile=$PROFILE
    # Its tables show only the campaign, before and after tuning.
    [ "$study $PROFILE" != "001-svload short" ] || profile=campaign-short
    told svload lab install "studies/$study" --profile "$profile" || exit
    code=0
    told svload run "studies/$study" --profile "$profile" --trust --out "$out/$study" || code=$?
    case $code in 0 | 1 | 4) ;; *) exit "$code" ;; esac
    [ "$study $PROFILE" != "001-svload demo" ] || continue
    told python "studies/$study/tables.py" "$out/$study/latest" --report || exit
done
