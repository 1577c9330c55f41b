"""A POSIX-sh ``nvidia-smi`` for containers of a mock node: it lists what the container was given, in NVIDIA's words."""

from __future__ import annotations

from driver.nvml.mock.compute_modes import TIME_SLICES
from driver.nvml.mock.model import Machine

_VOLTA = (7, 0)
"""The first GPUs whose time slices can be set."""

_SCRIPT = r"""#!/bin/sh
# Stand-in for nvidia-smi on a node without NVIDIA GPUs. It knows the GPUs of its node, and lists those that this container
# was given: GPU_DRA_DEVICE_<address>=<uuid>, one variable a device.
set -eu

product() {
    case "$1" in
@PRODUCTS@
    MIG-*) echo "MIG device" ;;
    *) echo "unknown device" ;;
    esac
}

devices() {
    env | sed -n 's/^GPU_DRA_DEVICE_\([A-Za-z0-9_]*\)=\(.*\)$/\1 \2/p' | sort
}

list() {
    index=0
    devices | while read -r address uuid; do
        echo "GPU $index: $(product "$uuid") (UUID: $uuid)"
        index=$((index + 1))
    done
}

# compute-policy -i <uuid> --set-timeslice <0..3>: on the node, not in containers. What is set lies in the stand-in root.
set_time_slice() {
    root=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
    if [ "${2:-}" != -i ] || [ "${4:-}" != --set-timeslice ]; then
        echo "compute-policy: say -i UUID --set-timeslice 0..3"
        exit 2
    fi
    case "${5:-}" in 0 | 1 | 2 | 3) ;; *)
        echo "Invalid time slice ${5:-}"
        exit 2
        ;;
    esac
    if [ ! -d "$root/proc/driver/nvidia" ] || [ ! -w "$root" ]; then
        echo "Insufficient Permissions"
        exit 4
    fi
    case "$3" in
@TIME_SLICED@
    GPU-*) echo "Setting time slices is not supported for $3"; exit 3 ;;
    *) echo "No devices were found"; exit 6 ;;
    esac
    mkdir -p "$root/@FOLDER@"
    echo "$5" > "$root/@FOLDER@/$3"
    echo "Successfully set time-slice of GPU $3 to $5"
    exit 0
}

case "${1:-}" in
-L | --list-gpus | "") ;;
compute-policy) set_time_slice "$@" ;;
-h | --help)
    echo "nvidia-smi (stand-in, driver @VERSION@): -L lists the devices of this container"
    exit 0
    ;;
*)
    echo "nvidia-smi (stand-in): $1 is not known here; -L lists the devices of this container" >&2
    exit 2
    ;;
esac

if [ -z "$(devices)" ]; then
    echo "No devices were found"
    exit 6
fi
[ -n "${1:-}" ] || echo "NVIDIA-SMI @VERSION@    Driver Version: @VERSION@    CUDA Version: @CUDA@"
list
"""


def _quote(text: str) -> str:
    """``text`` as one word of sh, whatever is in it."""
    return "'" + text.replace("'", "'\\''") + "'"


def build_nvidia_smi(machine: Machine) -> str:
    """The script for the nodes of ``machine``."""
    products = "\n".join(f"    {_quote(gpu.uuid)}) echo {_quote(gpu.board.product)} ;;" for gpu in machine.gpus)
    cuda = f"{machine.cuda_driver_version // 1000}.{machine.cuda_driver_version % 1000 // 10}"
    able = [gpu.uuid for gpu in machine.gpus if gpu.board.compute_capability >= _VOLTA]
    words = {
        "@VERSION@": machine.driver_version,
        "@CUDA@": cuda,
        "@PRODUCTS@": products,
        "@TIME_SLICED@": "\n".join(f"    {_quote(uuid)}) ;;" for uuid in able),
        "@FOLDER@": TIME_SLICES,
    }
    script = _SCRIPT
    for mark, text in words.items():
        script = script.replace(mark, text)
    return script
