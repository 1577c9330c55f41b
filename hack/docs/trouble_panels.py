"""The panels of sick GPUs that several dashboards have. Every GPU is named by node, device and UUID."""

from __future__ import annotations

from driver.health.model import Kind
from driver.health.xids import XIDS
from driver.nvml.enums import RecoveryAction
from hack.docs.panel import Column, Panel, Shown, one

_INFO = "max by (node, gpu, uuid, product) (gpu_dra_gpu_info)"
"""Two instances of a plugin overlap in a rolling update: a join needs one line for each GPU."""
_FAULTS = 'gpu_dra_gpu_trouble{severity="fault"}'

_SEVERITY = Column(
    name="severity",
    title="severity",
    shown={"fault": Shown(text="fault", color="red"), "warning": Shown(text="warning", color="orange")},
    width=90,
)
_PLACE = (
    Column(name="node", title="node"),
    Column(name="gpu", title="GPU", width=170),
    Column(name="uuid", title="UUID", width=330),
)


def _list_values() -> dict[str, Shown]:
    """What each value of a trouble is called."""
    xids = {str(each.number): Shown(text=f"XID {each.number}: {each.meaning}") for each in XIDS if each.is_held}
    asked = (each.name.lower().replace("_", "-") for each in RecoveryAction if each is not RecoveryAction.NONE)
    return xids | {each: Shown(text=f"the driver asks for {each.replace('-', ' ')}") for each in asked}


def _join_info(series: str, labels: str) -> str:
    """With UUID and product, where the plugin knows them: without is still better than not shown."""
    kept = f"max by ({labels}) ({series})"
    return f"{kept} * on (node, gpu) group_left (uuid, product) {_INFO} or {kept} unless on (node, gpu) {_INFO}"


WHAT_IS_WRONG = Panel(
    title="What is wrong",
    kind="table",
    width=24,
    height=6,
    queries=one(
        _join_info('1000 * gpu_dra_gpu_trouble_since_timestamp_seconds{node=~"$node"}', "node, gpu, kind, value, severity")
    ),
    about="Each trouble of each GPU, and since when. The event on the Node says what to do; so does docs/health.md",
    columns=(
        _SEVERITY,
        *_PLACE,
        Column(name="product", title="product", width=170),
        Column(name="kind", title="taint", shown={each: Shown(text=f"gpu.nvidia.com/{each}") for each in Kind}, width=230),
        Column(name="value", title="what", shown=_list_values()),
        Column(name="Value", title="since", unit="dateTimeFromNow", width=140),
    ),
)

PODS_ON_SICK_GPUS = Panel(
    title="Pods on sick GPUs",
    kind="table",
    width=24,
    height=6,
    queries=one(
        _join_info(
            f'gpu_dra_gpu_holder{{node=~"$node"}} and on (node, gpu) {_FAULTS}',
            "node, gpu, device, type, namespace, pod, claim",
        )
    ),
    about="They go on running; whoever runs them may want to know",
    columns=(
        Column(name="namespace", title="namespace"),
        Column(name="pod", title="pod"),
        Column(name="claim", title="claim"),
        Column(name="device", title="device"),
        Column(name="type", title="type", width=80),
        *_PLACE,
        Column(name="product", title="product", width=170),
    ),
)
