#!/bin/sh
# thrice.sh COMMAND…: a download, tried three times: networks and registries have bad moments. PAUSE_S: between the first two.
pause=${PAUSE_S:-5}
for wait in "$pause" $((4 * pause)); do
    "$@" && exit 0
    echo "$1 failed; once more in $wait s: $*" >&2
    sleep "$wait"
done
exec "$@"
