#!/bin/bash
# All static checks: format, style, types, layers; for Python and for the engine. All are run; it fails if one
# fails.
set -uo pipefail
. "$(dirname "$0")/env.sh"

status=0
check() {
    echo "lint: $*"
    "$@" || status=1
}
check ruff format --check --quiet .
check ruff check --quiet .
check mypy
check lint-imports --no-logo
check python tools/budget.py
check cargo fmt --manifest-path engine/Cargo.toml --all --check
check cargo clippy --manifest-path engine/Cargo.toml --locked --workspace --all-targets --all-features --quiet -- -D warnings
exit "$status"
