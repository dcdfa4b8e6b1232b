# Common functions of the tests of MPS daemons, sourced after lib.sh. On two emulated devices.
# shellcheck shell=bash
burn=$GPUMUX_BUILD/workloads/gpumux-burn
up() { start --emulate 2xH200:24g --policy firstfit "$@"; } # firstfit puts all on one device
gpus() {
    json_with "$1" devices 1 quota '"4g"' command \
        "$(json_words "$burn" --step-ms 5 --memory 1g --steps 1000000)"
}
daemon_of() { cat "$state/node/mps/$1/nvidia-cuda-mps-control.pid" 2> /dev/null; }
alive() { [ -n "$1" ] && grep -q . "/proc/$1/cmdline" 2> /dev/null; } # and no zombie
our_burns() {
    local files
    files=$(grep -lszxF "GPUMUX_EMU=$state/emu/devices" /proc/[0-9]*/environ || true)
    # shellcheck disable=SC2086
    [ -z "$files" ] || grep -lsa gpumux-burn ${files//environ/cmdline} | cut -d / -f 3 || true
}
at_attempt() { [ "$(field "$1" attempt)" -ge "$2" ] && has "$1" state running; }
# Finds the present device: the first may have been out of use for a while.
follow() {
    part=$(field "$1" 'devices[0]')
    part=${part#GPU-}
    part=${part%%-*}
}
servers() {
    echo get_server_list \
        | CUDA_MPS_PIPE_DIRECTORY=$state/node/mps/$part \
        "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control"
}
clients() {
    echo "get_client_list $(servers)" \
        | CUDA_MPS_PIPE_DIRECTORY=$state/node/mps/$part \
        "$GPUMUX_BUILD/emu/bin/nvidia-cuda-mps-control"
}
mps_is() { [ "$(device "$(device_of "$1")" mps)" = "$2" ]; }
device_of() { api GET /v1/nodes "nodes[0].devices[uuid=$(field "$1" 'devices[0]')].index"; }
are_well() {
    for index in 0 1; do
        wait_until "device $index is well" eval '[ "$(device $index state)" = healthy ]'
    done
}
# A running client, and its daemon.
client_runs() {
    first=$(submit "$(gpus '{}')")
    wait_field "$first" state running
    follow "$first"
    wait_until "it is a client" eval '[ "$(clients | wc -l)" = 1 ]'
    pid=$(daemon_of "$part")
}
