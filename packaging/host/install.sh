#!/bin/sh
# Installs the reader of inference-watchdog on a watched machine as the forced command of one SSH key.
#   sudo sh install.sh 'ssh-ed25519 AAAA… name'     sudo sh install.sh --remove
# Needs reader.sh beside it, or in ../../watchdog/host as in a checkout. ACCOUNT=name chooses another account.
set -eu
account=${ACCOUNT:-monitor}
target=${TARGET:-/usr/local/libexec/inference-watchdog-reader}

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

remove() {
    home=$(getent passwd "$account" | cut -d: -f6)
    if [ -n "$home" ] && [ -f "$home/.ssh/authorized_keys" ]; then
        kept=$(grep -vF "command=\"$target\"" "$home/.ssh/authorized_keys" || true)
        printf '%s\n' "$kept" | sed '/^$/d' >"$home/.ssh/authorized_keys"
    fi
    rm -f "$target"
    echo "Removed $target and its key lines. The account $account stays; remove it with: userdel -r $account"
}

find_reader() {
    here=$(dirname "$0")
    for reader in "$here/reader.sh" "$here/../../watchdog/host/reader.sh"; do
        if [ -f "$reader" ]; then return; fi
    done
    fail "reader.sh is not beside this script"
}

install_key() { # PUBLIC-KEY
    case $1 in ssh-ed25519\ * | ecdsa-sha2-*\ * | ssh-rsa\ * | sk-*\ *) ;; *) fail "that is no public key: $1" ;; esac
    case $1 in *'
'*) fail "one key, on one line" ;; esac
    find_reader
    id "$account" >/dev/null 2>&1 || useradd --create-home --shell /bin/sh "$account"
    if getent group systemd-journal >/dev/null; then usermod -aG systemd-journal "$account"; fi
    install -D -o root -g root -m 755 "$reader" "$target"
    home=$(getent passwd "$account" | cut -d: -f6)
    install -d -o "$account" -g "$account" -m 700 "$home/.ssh"
    touch "$home/.ssh/authorized_keys"
    line="restrict,command=\"$target\" $1"
    grep -qxF "$line" "$home/.ssh/authorized_keys" || printf '%s\n' "$line" >>"$home/.ssh/authorized_keys"
    chown "$account:$account" "$home/.ssh/authorized_keys"
    chmod 600 "$home/.ssh/authorized_keys"
    echo "Installed $target for account $account. Set \`user: $account\` and \`forced_command: true\` for this host."
}

[ "$(id -u)" -eq 0 ] || fail "run me as root"
case ${1-} in
    '') fail "give the public key as one argument, or --remove" ;;
    --remove) remove ;;
    *) install_key "$1" ;;
esac
