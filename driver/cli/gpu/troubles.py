"""Taints of devices in words: what is wrong, since when, and who says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from driver.allocator.device_node import DeviceId, DeviceNode
from driver.api.fence import ALLOCATOR_KEY
from driver.api.resource_v1 import Taint
from driver.cli.gpu.gpu_names import name_gpu
from driver.cli.gpu.status_views import TroubleView
from driver.controller.objects.taint_rules import DeviceTaintRule
from driver.health.model import Kind
from driver.health.xids import find_xid

SLICE = "slice"
_BLOCKING = ("NoSchedule", "NoExecute")
_WORDS: Mapping[str, str] = {
    Kind.GPU_LOST: "the GPU does not answer any more, or has fallen off the bus; reboot the node",
    Kind.ECC: "memory errors that ECC cannot correct",
    Kind.RECOVERY: "NVML asks for something to be done about the GPU",
    Kind.NVLINK: "NVLinks are down",
    Kind.REMAPPED_ROWS: "memory rows wait for a reset, or could not be replaced",
    Kind.THERMAL: "it slows down because it is too hot",
    Kind.POWER_BRAKE: "it slows down because power is short",
    Kind.FABRIC: "its NVLink fabric is not up: CUDA may not start on it",
    Kind.UNMONITORED: "its driver tells no events: its health cannot be watched",
    "driver-away": "the node's driver does not answer: nothing new can be prepared there",
    "mig-leftover": "a MIG instance whose claim is gone could not be removed yet",
}
"""Of our own taints, by the key behind the driver's name."""


def list_troubles(node: DeviceNode, rules: Iterable[DeviceTaintRule]) -> tuple[TroubleView, ...]:
    """The taints of the node's devices but the fence, one entry for each GPU and taint, in order of GPU."""
    if not any(taint.key != ALLOCATOR_KEY for device in node.devices for taint in device.taints):
        return ()
    known = tuple(rules)
    found: dict[tuple[str, Taint], list[int]] = {}
    for at, device in enumerate(node.devices):
        for taint in device.taints:
            if taint.key != ALLOCATOR_KEY:
                found.setdefault((name_gpu(node, at), taint), []).append(at)
    return tuple(_build(node, taint, positions, known) for (_, taint), positions in found.items())


def is_blocking(taint: Taint) -> bool:
    """Whether the taint keeps claims away. Unknown effects keep nobody away."""
    return taint.effect in _BLOCKING


def is_unhealthy(taints: Iterable[Taint]) -> bool:
    """Whether a taint other than the fence keeps claims away."""
    return any(is_blocking(taint) and taint.key != ALLOCATOR_KEY for taint in taints)


def describe_taint(taint: Taint, driver: str, source: str) -> str:
    """What is wrong and what to do; what nobody here has a word for is told as it is."""
    prefix, _, kind = taint.key.rpartition("/")
    if source == SLICE and prefix == driver:
        if kind == Kind.XID and taint.value.isdecimal():
            xid = find_xid(int(taint.value))
            return f"XID {xid.number}: {xid.meaning}. {xid.advice}"
        if kind in _WORDS:
            return f"{_WORDS[kind]} ({taint.value})" if taint.value else _WORDS[kind]
    text = f"{taint.key}={taint.value}" if taint.value else taint.key
    return f"tainted with {text} by " + ("the node's driver" if source == SLICE else f"DeviceTaintRule {source}")


def _build(node: DeviceNode, taint: Taint, positions: Sequence[int], rules: Sequence[DeviceTaintRule]) -> TroubleView:
    at = positions[0]
    source = _find_source(node.ids[at], taint, rules)
    gpu = node.positions.get(node.ids[at]._replace(device=name_gpu(node, at)))
    return TroubleView(
        node=node.name,
        gpu=gpu,
        device=node.devices[at].name,
        devices=len(positions),
        key=taint.key,
        value=taint.value,
        effect=taint.effect,
        is_blocking=is_blocking(taint),
        since=taint.time_added,
        source=source,
        text=describe_taint(taint, node.ids[at].driver, source),
    )


def _find_source(id_: DeviceId, taint: Taint, rules: Sequence[DeviceTaintRule]) -> str:
    for rule in rules:
        selector = rule.spec.device_selector
        if selector is None or rule.spec.taint != taint:
            continue
        pairs = ((selector.driver, id_.driver), (selector.pool, id_.pool), (selector.device, id_.device))
        if all(wanted in (None, name) for wanted, name in pairs):
            return rule.metadata.name
    return SLICE
