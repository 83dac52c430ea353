#!/bin/sh
# beside.sh ARGUMENTS…: pytest with tests in parallel. Three at once on two cores, because many wait for a load;
# in the order that tests/conftest.py gives, long ones first.
set -eu
. "$(dirname "$0")/env.sh"
exec python -m pytest -n 3 --no-loadscope-reorder "$@"
