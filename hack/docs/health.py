"""``docs/health.md``, from the tables that the driver judges by."""

from __future__ import annotations

from driver.config.health_settings import EVICTING
from driver.health.model import Kind, Scope
from driver.health.state import SETTLE_S
from driver.health.xids import XIDS, Xid
from driver.node.health.listener import LOOK_S
from driver.node.health.relay import REST_S

_HEAD = """\
# Health of GPUs

<!-- Made by `python -m hack.docs` from driver/health and driver/node/health/listener.py. Change these, not this page. -->

The kubelet plugin listens to NVML and judges what it hears. What a program did to itself is counted. What is wrong with a \
GPU keeps
new claims from it, and this GPU alone: its neighbours stay in use. When it is over, the GPU comes back by itself.

| who hears of it | how |
| --- | --- |
| kube-scheduler and the controller | a taint on the devices in the ResourceSlice; its `timeAdded` is when the trouble began, \
and stays over restarts |
| people | events on the Node: `GpuUnhealthy`, `GpuWarning`, `GpuRecovered`, `GpuXid` (counted ones, the first of each number) |
| the kubelet | `allocatedResourcesStatus` in the pod's status: `Unhealthy`, with what happened and since when |
| who uses the claim | condition `Healthy` of the device in the claim's `status.devices`: `False` while it is ill, `True` once \
it is over, none if it never was; and the events `GpuUnhealthy`, `GpuRecovered` on the pods that use the claim |
| the monitoring | the figures of [metrics.md](metrics.md) |

```sh
kubectl describe node NODE | grep -i gpu     # the events
kubectl gpu status                           # taints of the fleet
kubectl get resourceclaim CLAIM -o jsonpath='{.status.devices[*].conditions}'
```

A trouble of a GPU in MIG mode concerns all that it is divided into; one of a GPU instance concerns what lies where the instance
lay, and the whole GPU. Pods that run stay, unless `--evict-for` names the kind: the taint's effect is then `NoExecute`, and
Kubernetes ends the pods that do not tolerate it. A cluster without device taints (before Kubernetes 1.36, unless the gate is \
on)
keeps none; there a device that is not fit is not published, and one that is only warned of is published as always.

## Kinds

The taint's key is `gpu.nvidia.com/<kind>`.

| kind | value | effect | what | over when |
| --- | --- | --- | --- | --- |
"""
_KINDS = {
    Kind.GPU_LOST: ("", "the GPU fell off the bus", "it answers again"),
    Kind.XID: ("the number", "an XID that is the GPU's or the node's (below)", "see below"),
    Kind.ECC: ("`uncorrected`", "memory errors that ECC could not correct", "see below"),
    Kind.RECOVERY: (
        "`gpu-reset`, `node-reboot`, `drain-p2p`, ...",
        "the driver itself asks for this to be done (*GPU recovery action*), whatever the XIDs were",
        "the driver asks for nothing",
    ),
    Kind.NVLINK: (
        "`down`",
        "NVLinks that were up in this boot are down; islands and pairs are published without them",
        "they are up",
    ),
    Kind.REMAPPED_ROWS: (
        "`pending`, `failed`",
        "a bad memory row waits for a reset to be replaced; or has no spare",
        "no row does",
    ),
    Kind.THERMAL: (
        "`slowdown`",
        "the hardware slows the GPU down for heat, in two looks in a row",
        "two looks in a row without",
    ),
    Kind.POWER_BRAKE: ("`slowdown`", "likewise because the power supply asks for it", "likewise"),
    Kind.FABRIC: (
        "`not-started`, `in-progress`, `failed`",
        "the NVLink fabric is not up: programs may fail with CUDA's error 802 (*system not yet initialized*)",
        "it is up",
    ),
    Kind.UNMONITORED: ("`events`", "the driver tells no events of this GPU, so XIDs are not seen", "it tells them"),
}
_AFTER_KINDS = f"""
`None` only warns: the device is given out, and is healthy to the kubelet. `remapped-rows` is a warning as `pending`, and \
blocks as
`failed`. Of several troubles of a kind the oldest makes the taint.

What an event told (`xid`, `ecc`) is over

- when the node was rebooted or the driver was loaded anew;
- when the driver says that nothing is to be done about the GPU, {SETTLE_S:g} s after the last event or later. A driver without
  the recovery action, one before 565, does not say so;
- when the count of uncorrected ECC errors begins from nought, which a reset of the GPU does;
- when another card is in the slot.

A GPU that was put right in a way that none of these shows: end the plugin on the node, delete `health.json` in its folder, and
start it again.

Events come when they happen. What NVML tells no events of is looked at every {LOOK_S:g} s, and at once after an event. \
However many
events there are, a node's health is published at most every {REST_S:g} s, and only when it is another one.

## What an operator does

1. Read the event: it says what happened, and what to do.
2. *Let the pods end*: no new ones come. `kubectl gpu status` shows who is left. To have them ended, use a DeviceTaintRule \
with the
   effect `NoExecute`, or drain the node.
3. A reset needs a GPU that nobody holds, and the plugin holds all of them while it listens. Empty the node, and take \
the plugin
   away by a taint, since a drain leaves DaemonSets alone. Bring it back after the reset: what was wrong is on disk, and the
   first look finds that it is over. The same holds for unloading the driver. With `--health-events off` nothing is held.

   ```sh
   kubectl drain NODE --ignore-daemonsets --delete-emptydir-data
   kubectl taint node NODE gpu-dra-away=yes:NoExecute   # ends the plugin, and what else does not tolerate it
   nvidia-smi --gpu-reset -i N                          # on the node
   kubectl taint node NODE gpu-dra-away-
   kubectl uncordon NODE
   ```

4. A GPU that shows the same again within days belongs to the vendor's diagnosis.

## Settings

| flag | value of the chart | what it is for |
| --- | --- | --- |
| `--ignored-xids 48,63` | `kubeletPlugin.health.ignoredXids=[48,63]` | these are counted and held against no GPU. The \
driver's own recovery action still is |
| `--evict-for gpu-lost,ecc` | `kubeletPlugin.health.evictFor=[gpu-lost,ecc]` | pods are ended, too: any of \
{", ".join(f"`{kind}`" for kind in EVICTING)} |
| `--health-events off` | `kubeletPlugin.health.events=false` | no events, and NVML is closed between two looks: for nodes \
whose driver is exchanged below the plugin |

## XIDs

*Counted* keeps nobody from the GPU: the figures have it, and an event on the Node says the first of each number. For a
program's there is nothing to do about the GPU; for one of the GPU's the event says what. Tainted or counted follows NVIDIA's
catalogue of XIDs: tainted where it asks for more than the program to be restarted or reset. 109 is the exception: programs
bring it about too often.

A number that is not here is taken for the GPU's, and said in the log. The driver's recovery action comes before this table: \
it takes
out a GPU after an XID that is counted, and puts it back after one that tainted it.

"""
_STATE = """
## What is kept

`health.json` in the plugin's folder has the troubles, since when, the counts of XIDs, and what the next look is judged by. A \
damaged
one is set aside as `health.json.corrupt`, and nothing is taken for wrong until it is seen again.

On a mock machine all of this can be played: [mock-machines.md](mock-machines.md#faults).
"""
_WHOSE = {
    (Scope.APPLICATION, False): "the program's: counted",
    (Scope.GPU, False): "the GPU's: counted",
    (Scope.GPU, True): "the GPU's: tainted",
    (Scope.NODE, True): "the node's: the GPU is tainted",
}
_WARNINGS = frozenset({Kind.NVLINK, Kind.THERMAL, Kind.POWER_BRAKE, Kind.FABRIC, Kind.UNMONITORED})


def render_health_page() -> str:
    """The whole page."""
    kinds = "".join(_kind_line(kind) for kind in Kind)
    xids = "".join(_xid_line(xid) for xid in XIDS)
    return f"{_HEAD}{kinds}{_AFTER_KINDS}| XID | whose | what | what to do |\n| --- | --- | --- | --- |\n{xids}{_STATE}"


def _kind_line(kind: Kind) -> str:
    value, what, over = _KINDS[kind]
    effect = "None" if kind in _WARNINGS else "NoSchedule, or None" if kind is Kind.REMAPPED_ROWS else "NoSchedule"
    return f"| `{kind.value}` | {value} | {effect} | {what} | {over} |\n"


def _xid_line(xid: Xid) -> str:
    return f"| {xid.number} | {_WHOSE[xid.scope, xid.is_held]} | {xid.meaning} | {xid.advice} |\n"
