"""The multi-node NVLink fabric that a GPU belongs to."""

from __future__ import annotations

import re

from driver.nvml.readings import FabricReading

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


def fabric_domain(fabric: FabricReading | None) -> str | None:
    """``<cluster uuid>.<clique id>``: GPUs with the same value reach each other by NVLink, whatever their node.

    Both halves are needed: one cluster may be cut into several cliques. None where the GPU has no fabric, the fabric is not
    complete, or the cluster uuid is all zeros: a single HGX board says COMPLETED with zeros on every node of the cluster, and
    must not look like one shared domain.
    """
    if fabric is None or not fabric.is_complete:
        return None
    cluster = fabric.cluster_uuid.lower()
    if cluster == _NO_CLUSTER or _UUID.fullmatch(cluster) is None or fabric.clique_id < 0:
        return None
    return f"{cluster}.{fabric.clique_id}"
