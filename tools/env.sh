# Sourced by the tools: one environment for everything that builds, so that cargo sees no change between them.
cd "$(dirname "$0")/.."
ROOT=$PWD
export VIRTUAL_ENV="$ROOT/.venv" PATH="$ROOT/.venv/bin:$PATH" PYO3_PYTHON="$ROOT/.venv/bin/python"
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONHOME
unset PYTHONDONTWRITEBYTECODE  # tests start hundreds of commands, which should not all compile the same files
