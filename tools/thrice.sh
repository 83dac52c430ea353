#!/bin/sh
# thrice.sh COMMAND…: tries a download three times, because networks and registries fail now and then. PAUSE_S: the
# pause between the first two.
pause=${PAUSE_S:-5}
for wait in "$pause" $((4 * pause)); do
    "$@" && exit 0
    echo "$1 failed; once more in $wait s: $*" >&2
    sleep "$wait"
done
exec "$@"
