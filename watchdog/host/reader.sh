#!/bin/sh
# inference-watchdog reader, protocol 1: the only thing inference-watchdog ever runs on a watched machine.
# It reads. It writes no file, changes nothing, evaluates no text it is given, and answers a closed list of requests:
#   read1 hello                          who am I here, which boots does the journal hold, is it written
#   read1 journal BOOT CURSOR|- MAX      kernel lines of one boot from CURSOR (inclusive) on, at most MAX (1..20000)
#   read1 follow BOOT CURSOR|- [beat [vitals]]
#                                        the same, then live, until standard input ends or six hours have passed; with
#                                        `beat` also when no line has come there for 30 seconds; with `vitals` a line
#                                        on memory and GPUs between them, every five seconds
#   read1 kmsg                           the kernel's ring buffer with its sequence numbers
#   read1 pstore                         what the firmware kept of a crash
#   read1 vitals                         memory, pressure, GPUs
#   read1 nccl                           what NCCL's own service on this machine says of the ranks here, if there is one
# Run either as `sh -s -- 'REQUEST'` with this file on standard input (nothing installed), or as the forced command of
# an SSH key (see packaging/host/), where the request is SSH_ORIGINAL_COMMAND. POSIX sh: dash, bash and busybox run it.
# An answer is one header line, data lines, one trailer line. No trailer means the answer was cut short.
{ # The shell reads to the closing brace before it runs anything: a script that arrived cut short does nothing.
set -u
LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
tag=INFERENCE-WATCHDOG-READER

die() { # RC WHY: the trailer, always the last line
    printf '%s END rc=%s why=%s\n' "$tag" "$1" "$2"
    exit "$1"
}

limited() { # SECONDS COMMAND…: bounded, polite, with nothing of the login's environment
    seconds=$1
    shift
    ${replace-} env -i LC_ALL=C "PATH=$PATH" nice -n 10 timeout -k 5 "$seconds" "$@"
}

header() { # The newline first: whatever a login script printed without one stays out of our line.
    printf '\n%s\n' "$tag" >&2 # what the login itself complained of stands before this
    boot=$(tr -d - </proc/sys/kernel/random/boot_id)
    printf '\n%s 1 request=%s boot=%s now=%s uptime=%s uid=%s groups=%s\n' "$tag" "$1" "$boot" "$(date +%s)" \
        "$(cut -d' ' -f1 /proc/uptime)" "$(id -u)" "$(id -Gn | tr -c 'A-Za-z0-9_.\n-' ,)"
}

check_boot() {
    case $1 in *[!0-9a-f]*) die 64 bad-boot ;; esac
    [ ${#1} -eq 32 ] || die 64 bad-boot
}

check_cursor() {
    case $1 in -) ;; *[!A-Za-z0-9=\;]* | -*) die 64 bad-cursor ;; s=*\;i=*) ;; *) die 64 bad-cursor ;; esac
}

kernel_lines() { # SECONDS BOOT CURSOR EXTRA…: kernel lines, "Missed N", journal start and stop, logind's shutdown
    limit=$1 of=$2 from=$3
    shift 3
    [ "$from" = - ] || set -- "$@" "--cursor=$from"
    limited "$limit" journalctl -q --no-pager -o json --all "$@" \
        --output-fields=MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_FACILITY,SYSLOG_IDENTIFIER,_TRANSPORT,_SOURCE_MONOTONIC_TIMESTAMP \
        "_BOOT_ID=$of" _TRANSPORT=kernel + "_BOOT_ID=$of" _TRANSPORT=driver \
        MESSAGE_ID=e9bf28e6e834481bb6f48f548ad13606 MESSAGE_ID=d93fb3c9c24d451a97cea615ce59c00b \
        MESSAGE_ID=f77379a8490b408bbe5f6940505a777b \
        + "_BOOT_ID=$of" _UID=0 MESSAGE_ID=98268866d1d54a499c4e98921d93bc40 </dev/null
}

journald() { # stopped: suspended by a signal; gone: not there although systemd runs this machine; else unknown
    set +f
    seen=''
    for place in /proc/[0-9]*; do
        { read -r name <"$place/comm"; } 2>/dev/null || continue
        [ "$name" = systemd-journal ] || continue
        while read -r key value _; do
            [ "$key" = State: ] || continue
            case $value in T | t) seen=${seen:-stopped} ;; *) seen=running ;; esac
        done 2>/dev/null <"$place/status"
    done
    set -f
    if [ -z "$seen" ] && { read -r name </proc/1/comm; } 2>/dev/null && [ "$name" = systemd ]; then seen=gone; fi
    printf 'journald=%s\n' "${seen:-unknown}"
}

hangs() { # NAME: whether one of ours hangs in the kernel although told to end (signal 15 or 9 waits).
    mine=$(id -u)
    set +f
    for place in /proc/[0-9]*; do
        { read -r name <"$place/comm"; } 2>/dev/null || continue
        [ "$name" = "$1" ] || continue
        owner='' state='' told=''
        while read -r key value _; do
            case $key in
                State:) state=$value ;;
                Uid:) owner=$value ;;
                SigPnd: | ShdPnd:) [ $((0x$value & 0x4100)) -eq 0 ] || told=yes ;;
            esac
        done 2>/dev/null <"$place/status"
        [ "$owner $state $told" != "$mine D yes" ] || { set -f; return 0; }
    done
    set -f
    return 1
}

spare() { # Never add a second one to it. One that is gone a second later only waited for its disk while it ended.
    hangs journalctl || return 0
    sleep 1
    ! hangs journalctl || die 70 journalctl-stuck
}

hello() {
    header hello
    echo can=beat # to those who send no beats nothing has changed
    echo can=nccl
    echo can=pulse
    command -v journalctl >/dev/null 2>&1 || die 0 no-journalctl
    spare
    printf 'journalctl=%s\n' "$(limited 10 journalctl --version </dev/null | head -n 1)"
    listed=$(limited 30 journalctl -q --no-pager --utc --list-boots </dev/null)
    printf 'boots_rc=%s\n' $?
    printf '%s\n' "$listed" | tail -n 400 | while read -r _ id _; do
        case $id in *[!0-9a-f]*) ;; *) [ ${#id} -eq 32 ] && printf 'boot=%s\n' "$id" ;; esac
    done
    journald
    limited 10 journalctl -q --no-pager -o export --output-fields=_BOOT_ID -n 1 "_BOOT_ID=$boot" </dev/null |
        while IFS='=' read -r key value; do
            [ "$key" != __REALTIME_TIMESTAMP ] || printf 'newest_us=%s looked=%s\n' "$value" "$(date +%s)"
        done
    storage
    die 0 ok
}

storage() { # where journald writes (/run: memory only), whether we may read that file, what is free there and on disk
    { read -r machine </etc/machine-id; } 2>/dev/null || return
    for place in /run/log/journal /var/log/journal; do
        file=$place/$machine/system.journal
        [ -e "$file" ] || continue
        if [ -r "$file" ]; then readable=yes; else readable=no; fi
        printf 'storage=%s readable=%s free_kib=%s\n' "$place" "$readable" "$(free_kib "$place")"
        break
    done
    [ ! -d "/var/log/journal/$machine" ] || printf 'disk_free_kib=%s\n' "$(free_kib /var/log/journal)"
}

free_kib() { # PLACE
    ! hangs df || { printf unknown; return; }
    limited 5 df -Pk "$1" 2>/dev/null | tail -n 1 | { read -r _ _ _ free _; printf '%s' "${free:-unknown}"; }
}

journal() { # BOOT CURSOR MAX
    case $3 in '' | *[!0-9]* | 0* | ??????*) die 64 bad-max ;; esac
    [ "$3" -le 20000 ] || die 64 bad-max
    header journal
    command -v journalctl >/dev/null 2>&1 || die 69 no-journalctl
    spare
    exec 4>&1
    rc=$({ { kernel_lines 60 "$1" "$2" 3>&-; echo $? >&3; } | head -n "$3" >&4; } 3>&1)
    case $rc in 0 | 141) die 0 ok ;; *) die 70 "journalctl-$rc" ;; esac # 141: head had enough
}

attended() { # beat|'': returns when the client is gone. A network that was cut ends no connection, for hours.
    if [ -n "$1" ]; then while [ -n "$(timeout 30 head -n 1)" ]; do :; done; else cat >/dev/null; fi
}

pulse() { # A line of its own: it may come in the middle of another one, which goes on after it.
    while :; do
        available='' some='' full=''
        while read -r key value _; do [ "$key" != MemAvailable: ] || { available=$value; break; }; done </proc/meminfo
        { read -r _ some _ && read -r _ full _; } 2>/dev/null </proc/pressure/memory
        printf '\nvitals memory=%s %s %s\n' "$available" "$some" "$full"
        sleep 5 >/dev/null 2>&1 # it may outlive the stream, and must not hold it open
    done
}

pulse_of_gpus() { # nvidia-smi in a loop of its own: where it hangs, only its lines are missing. Never a second one then.
    command -v nvidia-smi >/dev/null 2>&1 || return 0
    ! hung_gpu_tool || return 0
    limited 21700 nvidia-smi --format=csv,noheader,nounits --loop=5 \
        --query-gpu=index,temperature.gpu,power.draw,clocks.sm,utilization.gpu </dev/null 2>/dev/null |
        while read -r line; do printf '\nvitals gpu=%s\n' "$line"; done
}

follow() { # BOOT CURSOR beat|'' vitals|''. When the client goes, so must journalctl and what runs beside it.
    header follow
    command -v journalctl >/dev/null 2>&1 || die 69 no-journalctl
    spare
    exec 3<&0
    replace="exec" # so that $! is the process to end, not a shell around it
    # Our own logins too, as logind notes them: the next scan's proves that this stream still brings what is written.
    kernel_lines 21600 "$1" "$2" -f --no-tail "_BOOT_ID=$1" _UID=0 "USER_ID=$(id -un)" \
        MESSAGE_ID=8d45620c1a4348dbb17410da57c60c66 + 3<&- &
    reading=$!
    { attended "$3"; kill "$reading"; } <&3 2>/dev/null &
    waiting=$!
    beside=''
    if [ -n "$4" ]; then
        replace=''
        pulse 3<&- </dev/null &
        beside=$!
        pulse_of_gpus 3<&- </dev/null &
        beside="$beside $!"
    fi
    wait "$reading"
    rc=$?
    # shellcheck disable=SC2086 # one word a process
    kill "$waiting" $beside 2>/dev/null
    die 0 "ended-$rc"
}

kmsg() {
    header kmsg
    [ -r /dev/kmsg ] || die 77 kmsg-unreadable
    exec 4>&1
    why=$(limited 20 dd if=/dev/kmsg iflag=nonblock bs=8192 2>&1 >&4)
    case $why in # busybox's dd knows no iflag=nonblock: read until nothing has come for long enough
        *nonblock* | *"invalid"*) why=$(limited 3 dd if=/dev/kmsg bs=8192 2>&1 >&4; [ $? -ge 124 ] && echo unavailable) ;;
    esac
    case $why in
        *[Uu]navailable*) die 0 ok ;; # EAGAIN: everything has been read
        *"not permitted"* | *"denied"*) die 77 kmsg-denied ;;
        *"Broken pipe"*) die 75 kmsg-overrun ;;
        *) die 70 kmsg-failed ;;
    esac
}

pstore() {
    header pstore
    for place in /sys/fs/pstore /var/lib/systemd/pstore; do
        [ -d "$place" ] || continue
        if [ -r "$place" ] && [ -x "$place" ]; then printf 'place=%s\n' "$place"; else printf 'closed=%s\n' "$place"; fi
    done
    set +f
    for file in /sys/fs/pstore/* /var/lib/systemd/pstore/* /var/lib/systemd/pstore/*/*; do
        if [ ! -f "$file" ] || [ ! -r "$file" ]; then continue; fi
        printf 'file=%s changed=%s\n' "$(printf %s "${file##*/}" | tr -c 'A-Za-z0-9_.-' _)" "$(date -r "$file" +%s)"
        tail -c 2048 "$file" | tr -cd '[:print:]\n' | sed 's/^/| /'
    done | head -n 400
    die 0 ok
}

gpu_fields=index,name,utilization.gpu,power.draw,temperature.gpu,memory.used,memory.total,utilization.memory

hung_gpu_tool() { # A hung driver leaves nvidia-smi in state D, which no signal ends: never add a second one to it.
    set +f
    for place in /proc/[0-9]*; do
        read -r name 2>/dev/null <"$place/comm" || continue
        [ "$name" = nvidia-smi ] && waits "$place" && sleep 1 && waits "$place" && { set -f; return 0; }
    done
    set -f
    return 1
}

waits() { # PLACE: whether it waits in the kernel now; one that only works does so for moments
    while read -r key value _; do [ "$key" != State: ] || { [ "$value" = D ]; return; }; done 2>/dev/null <"$1/status"
    return 1
}

gpus() {
    ! hung_gpu_tool || { echo gpu_rc=stuck; return; }
    listed=$(limited 8 nvidia-smi --format=csv,noheader,nounits --query-gpu="$gpu_fields" </dev/null 2>/dev/null)
    rc=$?
    [ -z "$listed" ] || printf '%s\n' "$listed" | sed 's/^/gpu=/'
    case $rc in 0) echo gpu_rc=done ;; 124 | 137 | 143) echo gpu_rc=slow ;; *) echo "gpu_rc=failed-$rc" ;; esac
}

vitals() {
    header vitals
    while read -r key value _; do
        case $key in MemTotal: | MemAvailable:) printf '%s_kib=%s\n' "${key%:}" "$value" ;; esac
    done </proc/meminfo
    [ -r /proc/pressure/memory ] && while read -r kind ten sixty _; do
        printf 'memory_%s_%s\nmemory_%s_%s\n' "$kind" "$ten" "$kind" "$sixty"
    done </proc/pressure/memory 2>/dev/null
    if command -v nvidia-smi >/dev/null 2>&1; then
        set +f
        gpus &
        tries=0
        while kill -0 $! 2>/dev/null; do
            tries=$((tries + 1))
            [ $tries -le 75 ] || { echo gpu_rc=hung; break; }
            sleep 0.2 2>/dev/null || { sleep 1; tries=$((tries + 4)); }
        done
    else
        echo gpu_rc=none
    fi
    die 0 ok
}

ras() { # Two fixed lines to NCCL's own service: never other words, another port or another machine. 7: nobody listens
    if command -v bash >/dev/null 2>&1; then
        limited 6 bash -c 'exec 3<>/dev/tcp/localhost/28028 || exit 7
            printf "set format json\nverbose status\n" >&3 && exec cat <&3'
    elif command -v curl >/dev/null 2>&1; then
        printf 'set format json\nverbose status\n' | limited 6 curl -q -s -N telnet://localhost:28028
    else
        limited 6 ncclras -v
    fi </dev/null 2>/dev/null
}

nccl() { # NCCL before 2.28 refuses the first of the two lines and answers the second as text.
    header nccl
    command -v bash >/dev/null 2>&1 || command -v curl >/dev/null 2>&1 || command -v ncclras >/dev/null 2>&1 || {
        echo nccl_rc=none
        die 0 ok
    }
    exec 4>&1
    rc=$({ { ras 3>&-; echo $? >&3; } | head -c 262144 | tr -cd '[:print:]\n' | sed 's/^/| /' >&4; } 3>&1)
    case $rc in
        0 | 141) rc='done' ;; # 141: head had enough
        124 | 137 | 143) rc=hangs ;;
        1 | 7) rc=nobody ;;
        *) rc=failed-$rc ;;
    esac
    printf '\nnccl_rc=%s\n' "$rc"
    die 0 ok
}

main() {
    request=${1-${SSH_ORIGINAL_COMMAND-}}
    [ ${#request} -le 400 ] || die 64 too-long
    case $request in '') die 64 no-request ;; *[!A-Za-z0-9=\;\ -]*) die 64 bad-character ;; esac
    set -f
    IFS=' '
    # shellcheck disable=SC2086 # split at blanks on purpose, with file name expansion off
    set -- $request
    unset IFS
    [ "${1-}" = read1 ] || die 64 unknown-protocol
    case ${2-}/$# in
        hello/2 | kmsg/2 | pstore/2 | vitals/2 | nccl/2) "$2" ;;
        journal/5) check_boot "$3"; check_cursor "$4"; journal "$3" "$4" "$5" ;;
        follow/4) check_boot "$3"; check_cursor "$4"; follow "$3" "$4" '' '' ;;
        follow/5) check_boot "$3"; check_cursor "$4"; [ "$5" = beat ] || die 64 bad-word; follow "$3" "$4" beat '' ;;
        follow/6)
            check_boot "$3"
            check_cursor "$4"
            [ "$5 $6" = "beat vitals" ] || die 64 bad-word
            follow "$3" "$4" beat vitals
            ;;
        *) die 64 bad-request ;;
    esac
}

main "$@"
}
