"""The dashboard of sick GPUs."""

from __future__ import annotations

from hack.docs.panel import Dashboard, Panel, lamp, one
from hack.docs.trouble_panels import PODS_ON_SICK_GPUS, WHAT_IS_WRONG


def _build_xids(by: str) -> str:
    """In ten minutes. ``increase`` would not see how a series begins, and the first XID of a number is its beginning."""
    of = 'max by (node, gpu, xid) (gpu_dra_gpu_xids_total{node=~"$node"}'  # two instances overlap in a rolling update
    now, before = (f"sum by ({by}) ({of}{shift}))" for shift in ("", " offset 10m"))
    return f"clamp_min({now} - ({before} or 0 * {now}), 0)"


HEALTH = Dashboard(
    uid="gpu-dra-health",
    title="GPU DRA / Health",
    about="Sick GPUs, and nodes that do not serve.",
    variables=(("node", "gpu_dra_node_registered"),),
    panels=(
        lamp(
            "GPUs in trouble",
            'count(count by (node, gpu) (gpu_dra_gpu_trouble{severity="fault",node=~"$node"})) or vector(0)',
            "New claims avoid them",
            width=5,
        ),
        lamp(
            "Pods on them",
            'count(count by (namespace, pod) (gpu_dra_gpu_holder{pod!="",node=~"$node"}'
            ' and on (node, gpu) gpu_dra_gpu_trouble{severity="fault"})) or vector(0)',
            "They go on running",
            width=5,
        ),
        lamp(
            "GPUs with a warning",
            'count(count by (node, gpu) (gpu_dra_gpu_trouble{severity="warning",node=~"$node"})) or vector(0)',
            "They are given out all the same",
            width=4,
            color="orange",
        ),
        lamp(
            "Nodes not registered",
            'count(max by (node) (gpu_dra_node_registered{node=~"$node"}) == 0) or vector(0)',
            "No pod with a claim starts there",
            width=5,
        ),
        lamp(
            "Nodes whose GPUs are not known",
            'count(max by (node) (gpu_dra_node_machine_read{node=~"$node"}) == 0) or vector(0)',
            "NVML does not answer",
            width=5,
        ),
        WHAT_IS_WRONG,
        PODS_ON_SICK_GPUS,
        Panel(
            title="Troubles",
            queries=one(
                'max by (node, gpu, kind, value) (gpu_dra_gpu_trouble{node=~"$node"})', "{{node}} {{gpu}}: {{kind}} {{value}}"
            ),
            about="A line as long as each lasted, also of those that are over",
        ),
        Panel(
            title="XIDs",
            unit="short",
            queries=one(_build_xids("xid"), "XID {{xid}}"),
            about="In ten minutes, by number. docs/health.md says whose each is",
        ),
        Panel(
            title="XIDs by GPU",
            queries=one(f"{_build_xids('node, gpu')} > 0", "{{node}} {{gpu}}"),
            about="In ten minutes",
        ),
        Panel(
            title="Hottest GPU of each node",
            unit="celsius",
            queries=one('max by (node) (gpu_dra_gpu_temperature_celsius{node=~"$node"})', "{{node}}"),
            about="Braking begins in the eighties",
        ),
        Panel(
            title="NVLinks up",
            queries=one('sum by (node) (gpu_dra_gpu_active_nvlinks{node=~"$node"})', "{{node}}"),
            about="A step down is a link that went",
        ),
        Panel(
            title="Islands",
            queries=one('gpu_dra_node_island_gpus{node=~"$node"}', "{{node}} {{island}}"),
            about="GPUs of each NVLink island",
        ),
    ),
)
