"""The dashboard of one node, or of a few."""

from __future__ import annotations

from hack.docs.panel import Dashboard, Panel, Query, lamp, one, stat
from hack.docs.trouble_panels import WHAT_IS_WRONG

_OF_PLUGINS = 'on (node, instance) group_left () gpu_dra_build_info{component="kubelet-plugin",node=~"$node"}'

NODE = Dashboard(
    uid="gpu-dra-node",
    title="GPU DRA / Node",
    about="One node: its GPUs, who holds them, and how the plugin does.",
    variables=(("node", "gpu_dra_node_registered"),),
    panels=(
        stat("Registered", 'min(gpu_dra_node_registered{node=~"$node"})', "1: the kubelet knows the plugin"),
        stat(
            "Publishing",
            'max by (state) (gpu_dra_node_publish_state{node=~"$node"} == 1)',
            "published, or yielded to a newer instance of the plugin",
            legend="{{state}}",
        ),
        stat("Devices", 'sum(gpu_dra_node_allocatable_devices{node=~"$node"})', "That may be prepared"),
        stat("Claims", 'sum(gpu_dra_node_claims{node=~"$node"})', "With a record on the node"),
        lamp("Unhealthy devices", 'sum(gpu_dra_node_unhealthy_devices{node=~"$node"})', "As the kubelet is told", width=4),
        stat("In flight", 'sum(gpu_dra_node_claims_in_flight{node=~"$node"})', "Claims that are worked on now"),
        WHAT_IS_WRONG,
        Panel(
            title="Utilization",
            unit="percentunit",
            top=1,
            width=12,
            queries=one('gpu_dra_gpu_utilization_ratio{node=~"$node"}', "{{node}} {{gpu}}"),
            about="Of whole GPUs; one in MIG mode does not tell",
        ),
        Panel(
            title="Memory in use",
            unit="bytes",
            width=12,
            queries=one('gpu_dra_gpu_memory_used_bytes{node=~"$node"}', "{{node}} {{gpu}}"),
            about="Without the driver's own",
        ),
        Panel(
            title="Power",
            unit="watt",
            width=12,
            queries=one('gpu_dra_gpu_power_watts{node=~"$node"}', "{{node}} {{gpu}}"),
            about="What each board draws",
        ),
        Panel(
            title="Temperature",
            unit="celsius",
            width=12,
            queries=one('gpu_dra_gpu_temperature_celsius{node=~"$node"}', "{{node}} {{gpu}}"),
            about="Of each chip",
        ),
        Panel(
            title="Who holds what",
            kind="table",
            width=24,
            queries=one(
                'max by (node, gpu, device, type, namespace, claim, pod) (gpu_dra_gpu_holder{node=~"$node"})',
            ),
            about="Claims that are prepared, and the pods that use them",
        ),
        Panel(
            title="Prepare and unprepare",
            unit="s",
            queries=(
                Query(
                    expr="histogram_quantile(0.5, sum by (operation, le)"
                    ' (rate(gpu_dra_node_claim_seconds_bucket{node=~"$node",outcome="ok"}[5m])))',
                    legend="{{operation}}, half",
                ),
                Query(
                    expr="histogram_quantile(0.95, sum by (operation, le)"
                    ' (rate(gpu_dra_node_claim_seconds_bucket{node=~"$node",outcome="ok"}[5m])))',
                    legend="{{operation}}, 19 of 20",
                ),
            ),
            about="For one claim, locks included",
        ),
        Panel(
            title="Where prepare's time goes",
            unit="s",
            queries=one(
                'sum by (step) (rate(gpu_dra_node_step_seconds_sum{node=~"$node",operation="prepare"}[5m]))'
                ' / sum by (step) (rate(gpu_dra_node_step_seconds_count{node=~"$node",operation="prepare"}[5m]))',
                "{{step}}",
            ),
            about="begin: the API server, or another claim's lock; mig: the hardware; record and cdi-file: the disk",
        ),
        Panel(
            title="Failures",
            unit="ops",
            queries=one(
                'sum by (operation, reason) (rate(gpu_dra_node_claim_failures_total{node=~"$node"}[5m]))',
                "{{operation}}: {{reason}}",
            ),
            about="The kubelet asks again; the pod's events have the text",
        ),
        Panel(
            title="Writes of slices",
            unit="ops",
            queries=(
                Query(expr='rate(gpu_dra_node_slice_writes_total{node=~"$node"}[5m])', legend="{{node}} written"),
                Query(
                    expr='sum by (node, reason) (rate(gpu_dra_node_publish_failures_total{node=~"$node"}[5m]))',
                    legend="{{node}} failed: {{reason}}",
                ),
            ),
            about="None in a quiet hour",
        ),
        Panel(
            title="The plugin's memory",
            unit="bytes",
            queries=one(
                f"process_resident_memory_bytes * {_OF_PLUGINS}",
                "{{node}}",
            ),
            about="Flat",
        ),
        Panel(
            title="The plugin's open files",
            queries=one(
                f"process_open_fds * {_OF_PLUGINS}",
                "{{node}}",
            ),
            about="Flat",
        ),
    ),
)
