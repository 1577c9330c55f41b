"""A POSIX-sh ``nvidia-cuda-mps-control`` for mock nodes: a daemon that answers, on its host and in containers."""

from __future__ import annotations

MPS_CONTROL = r"""#!/bin/sh
# Stand-in for nvidia-cuda-mps-control on a node without NVIDIA GPUs. With -f it is the daemon, else it sends the commands of
# its standard input to the daemon of CUDA_MPS_PIPE_DIRECTORY and prints the answers. It knows the limits, and has no servers.
set -eu
pipe=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}

fail() {
    echo "$1" >&2
    exit 1
}

ask() {
    [ -p "$pipe/control" ] || fail "Cannot find MPS control daemon process"
    while read -r line; do
        [ -n "$line" ] || continue
        # By name alone: a container has the folder at another path than the daemon.
        answer="answer.$(hostname 2> /dev/null || echo here).$$"
        rm -f "$pipe/$answer"
        mkfifo -m 666 "$pipe/$answer"
        echo "$answer $line" > "$pipe/control"
        while read -r said; do echo "$said"; done < "$pipe/$answer"
        rm -f "$pipe/$answer"
    done
}

limit_of() {
    sed -n "s|^$1 ||p" "$pipe/.limits" 2> /dev/null || true
}

obey() {
    case "$1" in
    get_default_active_thread_percentage) cat "$pipe/.threads" ;;
    set_default_active_thread_percentage) echo "$2.0" > "$pipe/.threads" && cat "$pipe/.threads" ;;
    set_default_device_pinned_mem_limit)
        case ",$CUDA_VISIBLE_DEVICES," in
        *",$2,"*)
            { grep -v "^$2 " "$pipe/.limits" 2> /dev/null || true; } > "$pipe/.next"
            echo "$2 $3" >> "$pipe/.next"
            mv "$pipe/.next" "$pipe/.limits"
            ;;
        *) echo "Invalid device $2" ;;
        esac
        ;;
    get_default_device_pinned_mem_limit) limit_of "$2" ;;
    get_server_list) : ;;
    quit) : ;;
    *) echo "Unknown command $1" ;;
    esac
}

serve() {
    [ ! -p "$pipe/control" ] || fail "An instance of this daemon is already running"
    [ -w "$pipe" ] || fail "Cannot write to $pipe"
    [ ${#pipe} -le 88 ] || fail "No room for a socket's path: $pipe/control_privileged"
    case "${CUDA_VISIBLE_DEVICES:-}" in GPU-* | MIG-*) ;; *) fail "No device to serve" ;; esac
    echo $$ > "$pipe/nvidia-cuda-mps-control.pid"
    echo 100.0 > "$pipe/.threads"
    trap 'rm -f "$pipe/control" "$pipe/nvidia-cuda-mps-control.pid"; exit 0' TERM INT
    mkfifo -m 666 "$pipe/control"
    exec 3<> "$pipe/control"
    echo "MPS control daemon (stand-in) serves $CUDA_VISIBLE_DEVICES, multi-user ${1:-no}"
    while read -r answer command rest <&3; do
        # shellcheck disable=SC2086  # a command's words are words
        [ ! -p "$pipe/$answer" ] || obey "$command" $rest > "$pipe/$answer"
        echo "$command $rest"
        [ "$command" != quit ] || break
    done
    rm -f "$pipe/control" "$pipe/nvidia-cuda-mps-control.pid"
}

case "${1:-}" in
-f) case "${2:-}" in -multiuser-server) serve yes ;; *) serve no ;; esac ;;
"") ask ;;
*) fail "nvidia-cuda-mps-control (stand-in): $1 is not known here" ;;
esac
"""
