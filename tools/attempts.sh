#!/bin/bash
# attempts.sh NAME COMMAND…: a pytest command. What fails in it has one more attempt, with the machine to itself: a shared
# machine can starve a test for minutes. What fails twice has failed; what passed only then is named in the last lines.
# More than eight failures are no bad luck: they have no second attempt.
set -uo pipefail
. "$(dirname "$0")/env.sh"
name=$1
shift
cache=build/pytest-$name
rm -rf "$cache"
status=0
"$@" -o cache_dir="$cache" || status=$?
[ "$status" = 1 ] || exit "$status"

failed=$(python -c 'import json, sys; print(*sorted(json.load(open(sys.argv[1]))), sep="\n")' "$cache/v/cache/lastfailed") || exit 1
[ "$(wc -l <<<"$failed")" -le 8 ] || exit 1
echo "--- once more, with nothing beside them: $(wc -l <<<"$failed") failed tests ---"
mapfile -t tests <<<"$failed"
python -m pytest -o cache_dir="$cache-again" "${tests[@]}" || exit 1
echo "!!! PASSED ONLY IN THE SECOND ATTEMPT, see the first one's failure above:" >&2
sed 's/^/!!!   /' <<<"$failed" >&2
