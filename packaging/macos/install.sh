#!/bin/sh
# Installs inference-watchdog on a Mac, in an environment of its own, and lets launchd run it:
#   sh install.sh [WHEEL-OR-CHECKOUT]            sh install.sh --remove
# Without an argument, the checkout this script stands in. Needs Python 3.11 or newer (PYTHON=… chooses one).
# Run it as yourself: it asks for sudo when it hands over to launchd. The daemon runs under your account, as a
# LaunchDaemon: since macOS 15 an agent is refused the local network. Run it again to upgrade.
set -eu
prefix=${PREFIX:-$HOME/.local/inference-watchdog}
config="$HOME/Library/Application Support/inference-watchdog/config.yaml"
command=$prefix/bin/inference-watchdog

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

find_python() {
    for python in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        [ -n "$python" ] || continue
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then return; fi
    done
    fail "no Python 3.11 or newer; install one (brew install python@3.12) or set PYTHON"
}

install() { # WHEEL-OR-CHECKOUT
    find_python
    [ -d "$prefix" ] || "$python" -m venv "$prefix"
    # The hash-pinned requirements where there is a checkout; a wheel alone takes what is newest.
    if [ -f "$1/requirements/run.txt" ]; then
        "$prefix/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$1/requirements/run.txt"
        "$prefix/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$1"
    else
        "$prefix/bin/pip" install --quiet --disable-pip-version-check --upgrade "$1"
    fi
    "$command" --version
    if [ ! -e "$config" ]; then
        mkdir -p "$(dirname "$config")"
        (umask 077 && printf '%s\n' '# See config/full.yaml of inference-watchdog for every key.' '#servers:' \
            '#  - name: deepseek' '#    base_url: http://192.0.2.10:8000/v1' '#receivers:' '#  - name: phone' \
            '#    url: ntfys://ntfy.sh/a-topic-nobody-can-guess' >"$config")
        echo "Now fill in: $config"
        echo "then run this again, or: sudo \"$command\" service install --launchd --config \"$config\""
        return
    fi
    sudo "$command" service install --launchd --config "$config"
    case $(pmset -g custom 2>/dev/null | awk '/AC Power/ {ac = 1} ac && $1 == "sleep" {print $2; exit}') in
        0 | '') ;;
        *) echo "This Mac sleeps: a sleeping watchdog sees nothing. Keep it awake on mains: sudo pmset -c sleep 0" ;;
    esac
}

remove() {
    if [ -e /Library/LaunchDaemons/org.inference-watchdog.daemon.plist ]; then sudo "$command" service remove --launchd; fi
    rm -rf "$prefix"
    echo "Removed $prefix. Configuration and state stay in $(dirname "$config")."
}

[ "$(uname -s)" = Darwin ] || [ -n "${ANY_SYSTEM-}" ] || fail "this is for macOS; on Linux take the .deb or .rpm"
[ "$(id -u)" -ne 0 ] || [ -n "${ANY_SYSTEM-}" ] || fail "run it as yourself, not with sudo"
case ${1-} in
    --remove) remove ;;
    '') install "$(cd "$(dirname "$0")/../.." && pwd)" ;;
    *) install "$1" ;;
esac
