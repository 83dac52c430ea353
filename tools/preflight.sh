#!/bin/sh
# Prints one line for each thing that this machine lacks to build svload, and the Python to use.
# Policy: any Rust from 1.80 (no toolchain file: nothing is downloaded without the user's knowledge), any Python from 3.11.
set -eu

lacks=0
need() {
    lacks=1
    echo "svload needs $1: $2" >&2
}

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done
if [ -z "$python" ]; then
    need "Python 3.11 or newer" "install it (Debian: apt-get install python3 python3-venv), or say PYTHON=/path/to/python3"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    need "Python's venv module" "install it (Debian: apt-get install python3-venv)"
fi

if ! command -v cargo >/dev/null 2>&1; then
    need "a Rust toolchain, 1.80 or newer" "install rustup, then: rustup default stable"
elif ! cargo --version 2>/dev/null | awk '{ split($2, v, "."); exit !(v[1] > 1 || v[2] >= 80) }'; then
    need "Rust 1.80 or newer" "this is $(cargo --version 2>&1 | head -n 1); run: rustup update stable"
fi

command -v cc >/dev/null 2>&1 || need "a C compiler" "install one (Debian: apt-get install gcc libc6-dev)"
command -v make >/dev/null 2>&1 || need "make" "install it (Debian: apt-get install make)"
[ "$(uname -s)" = Linux ] || need "Linux" "it reads /proc and uses epoll; a Linux machine or container does"

[ "$lacks" -eq 0 ] || exit 2
echo "$python"
