"""The dashboard of the fleet."""

from __future__ import annotations

from hack.docs.panel import Dashboard, Panel, Query, lamp, one, stat

FLEET = Dashboard(
    uid="gpu-dra-fleet",
    title="GPU DRA / Fleet",
    about="What the fleet's GPUs do, and what waits for them.",
    panels=(
        stat("Free GPUs", 'max(gpu_dra_gpus{state="free"})', "Whole GPUs of fenced nodes that nobody has", width=3),
        stat("Allocated GPUs", 'max(gpu_dra_gpus{state="allocated"})', "Wholly, in parts, or shared", width=3),
        lamp("Unavailable GPUs", 'max(gpu_dra_gpus{state="unavailable"})', "Nobody's, and tainted", width=3, color="orange"),
        lamp(
            "GPUs in trouble",
            'count(count by (node, gpu) (gpu_dra_gpu_trouble{severity="fault"})) or vector(0)',
            "Held or not; the dashboard of health names them",
            width=4,
        ),
        stat(
            "Largest free island",
            "max(gpu_dra_largest_free_island_gpus)",
            "The largest claim on one NVLink island that would be placed at once",
        ),
        stat("Nodes that serve", "sum(gpu_dra_node_registered)", "Nodes whose kubelet knows the plugin"),
        stat("Leaders", "sum(gpu_dra_leader)", "One. Else nothing is allocated on fenced nodes", width=3),
        Panel(
            title="GPUs",
            queries=one("max by (state) (gpu_dra_gpus)", "{{state}}"),
            about="By whom they are had: free, allocated, unavailable, and those that are kube-scheduler's",
        ),
        Panel(
            title="Claims that wait",
            queries=one("max by (reason) (gpu_dra_waiting_claims)", "{{reason}}"),
            about="full: buy or wait; fragmented: GPUs are free, but not together; pod, unmatched: the claim itself",
        ),
        Panel(
            title="Oldest claim that waits",
            unit="s",
            queries=one("max(gpu_dra_oldest_waiting_seconds)", "oldest"),
            about="0 where nothing waits",
        ),
        Panel(
            title="Utilization",
            unit="percentunit",
            top=1,
            queries=(
                Query(expr="avg(gpu_dra_gpu_utilization_ratio)", legend="all GPUs"),
                Query(
                    expr='avg(gpu_dra_gpu_utilization_ratio and on (node, gpu) gpu_dra_gpu_holder{type!="admin"})',
                    legend="GPUs that a claim holds",
                ),
            ),
            about="What is paid for, and what is asked for and used",
        ),
        Panel(
            title="Held and idle",
            queries=one(
                'count((gpu_dra_gpu_utilization_ratio < 0.01) and on (node, gpu) gpu_dra_gpu_holder{type="gpu"}) or vector(0)',
                "GPUs",
            ),
            about="Whole GPUs that a pod holds and does not use now",
        ),
        Panel(
            title="Devices that claims hold",
            queries=one("sum by (type) (gpu_dra_node_prepared_devices)", "{{type}}"),
            about="Whole GPUs, MIG devices, shares of memory; admin only looks on",
        ),
        Panel(
            title="From a pod to its allocation",
            unit="s",
            queries=(
                Query(expr="histogram_quantile(0.5, sum by (le) (rate(gpu_dra_placement_seconds_bucket[5m])))", legend="half"),
                Query(
                    expr="histogram_quantile(0.95, sum by (le) (rate(gpu_dra_placement_seconds_bucket[5m])))",
                    legend="19 of 20",
                ),
            ),
            about="Waiting for GPUs included",
        ),
        Panel(
            title="Decisions",
            unit="ops",
            queries=one("sum by (outcome) (rate(gpu_dra_decisions_total[5m]))", "{{outcome}}"),
            about="fault: somebody has to mend a claim, a class or a policy",
        ),
        Panel(
            title="Taken back",
            unit="ops",
            queries=one("sum by (cause) (rate(gpu_dra_take_backs_total[5m]))", "{{cause}}"),
            about="Allocations that nobody used, by why",
        ),
        Panel(
            title="Writes to claims",
            unit="s",
            queries=one(
                "histogram_quantile(0.95, sum by (write, le) (rate(gpu_dra_write_seconds_bucket[5m])))", "{{write}}, 19 of 20"
            ),
            about="How long the API server takes",
        ),
        Panel(
            title="Writes that failed",
            unit="ops",
            queries=one("sum by (why) (rate(gpu_dra_write_failures_total[5m]))", "{{why}}"),
            about="conflicts are read again and tried anew; the others are worth a look",
        ),
        Panel(
            title="Prepare",
            unit="s",
            queries=one(
                "histogram_quantile(0.95, sum by (operation, le) (rate(gpu_dra_node_claim_seconds_bucket[5m])))",
                "{{operation}}, 19 of 20",
            ),
            about="On the nodes, from the kubelet's call to the CDI file",
        ),
    ),
)
