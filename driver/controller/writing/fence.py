"""The controller's part in the fence: let go of a node that wants to leave, and name claims that would climb over.

A node that leaves the controller publishes its devices as *draining*, with the moment in the taint's ``timeAdded``, and waits.
The leader acknowledges that very moment once nothing that it sent for the pool can still take effect, and long enough after for
kube-scheduler, which follows claims and slices by separate watches, to have seen the claims before it sees free devices (R3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from driver.allocator.pools import Pool
from driver.api.fence import ALLOCATOR_KEY, DRAINED_ANNOTATION, DRAINING
from driver.controller.objects.model import NODES, Node, NodeMeta
from driver.kube.client import KubeClient

QUIET_S = 10.0
"""How long after the last write for a pool it may be acknowledged."""


class PoolWrites:
    """What is under way for each pool, by name. For the decision thread; times are those of one clock that never goes back.

    A write whose outcome is not known has not ended: call ``end`` when the claim was read again, and says what came of it.
    """

    def __init__(self, leads_since_s: float) -> None:
        """``leads_since_s``: what a leader before us wrote may be news to kube-scheduler still."""
        self._leads_since_s = leads_since_s
        self._under_way: dict[str, int] = {}
        self._ended_s: dict[str, float] = {}

    def begin(self, pool: str) -> None:
        """A write that gives or takes devices of the pool is decided: call it before the write can be sent."""
        self._under_way[pool] = self._under_way.get(pool, 0) + 1

    def end(self, pool: str, now_s: float) -> None:
        """Such a write is over: stored, refused, or never sent."""
        left = self._under_way.get(pool, 0) - 1
        self._ended_s[pool] = now_s
        if left > 0:
            self._under_way[pool] = left
        else:
            self._under_way.pop(pool, None)

    def is_quiet(self, pool: str, now_s: float) -> bool:
        """Whether nothing is under way, and has not been for a while."""
        last_s = max(self._leads_since_s, self._ended_s.get(pool, self._leads_since_s))
        return pool not in self._under_way and now_s >= last_s + QUIET_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Nothing of ours is under way for the node's pool; ``time_added`` is that of the drain that this ends."""

    node: str
    node_uid: str
    time_added: str


def plan_acknowledgements(
    pools: Iterable[Pool], nodes: Mapping[str, Node], writes: PoolWrites, *, now_s: float
) -> tuple[Acknowledgement, ...]:
    """The nodes that may leave now. Ask as leader, after each change of slices or nodes, and again when a pool becomes quiet.

    Args:
        pools: ours, whole, from ``gather_pools``: one that is being updated may still have fenced devices in an older slice.
        nodes: by name.
        writes: what is under way.
        now_s: by the clock of ``writes``.
    """
    found = []
    for pool in pools:
        node = nodes.get(pool.node)
        time_added = read_drain(pool)
        if node is None or time_added is None or node.metadata.annotations.get(DRAINED_ANNOTATION) == time_added:
            continue
        if writes.is_quiet(pool.name, now_s):
            found.append(Acknowledgement(node=pool.node, node_uid=node.metadata.uid, time_added=time_added))
    return tuple(found)


def read_drain(pool: Pool) -> str | None:
    """Since when all devices of the pool drain: the one ``timeAdded`` of their taints. None where any of them does not."""
    times = set()
    for device in pool.devices:
        fences = [taint for taint in device.taints if taint.key == ALLOCATOR_KEY]
        times |= {taint.time_added if taint.value == DRAINING else None for taint in fences} or {None}
    return times.pop() if len(times) == 1 else None


def write_acknowledgement(client: KubeClient, acknowledgement: Acknowledgement) -> None:
    """Tell the node, if it is still the same. Safe to do twice. Only while ``may_write`` holds.

    Raises:
        NotFound, Conflict: the node went, or is another one of that name: nothing to do.
        ApiError: it is to be tried again.
    """
    target = NodeMeta(name=acknowledgement.node)
    annotations = {DRAINED_ANNOTATION: acknowledgement.time_added}
    client.patch(NODES, target, {"metadata": {"uid": acknowledgement.node_uid, "annotations": annotations}})
