#!/bin/sh
# Installs inference-watchdog from this checkout into an environment of its own, with the libraries it was tested with:
#   sh packaging/install.sh [FOLDER]             Run it again to upgrade. Needs Python 3.11 or newer (PYTHON=… chooses one).
# Everything is in FOLDER (~/inference-watchdog if left out); removing it removes everything.
set -eu
prefix=${1:-$HOME/inference-watchdog}
source=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "needs Python 3.11 or newer, and $python is not; set PYTHON"
# The processor's own word is not enough: a Raspberry Pi may run a 32-bit system on a 64-bit kernel.
case $("$python" -c 'import platform, sys; print(platform.machine().lower(), sys.maxsize > 2**32)') in
    arm*False | aarch64*False) fail "32-bit ARM is not supported, its libraries are not built for it; use a 64-bit system" ;;
esac
"$python" -m venv "$prefix" || fail "cannot make an environment (Debian and Ubuntu: apt install python3-venv)"
pip() {
    "$prefix/bin/pip" install --quiet --disable-pip-version-check "$@"
}
pip --require-hashes -r "$source/requirements/run.txt"
pip --no-deps --force-reinstall "$source"
"$prefix/bin/inference-watchdog" --version
