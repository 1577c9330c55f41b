"""A POSIX-sh ``nvidia-smi`` for containers of a mock node: it lists what the container was given, in NVIDIA's words."""

from __future__ import annotations

from driver.nvml.mock.model import Machine

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

case "${1:-}" in
-L | --list-gpus | "") ;;
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
    return _SCRIPT.replace("@VERSION@", machine.driver_version).replace("@CUDA@", cuda).replace("@PRODUCTS@", products)
