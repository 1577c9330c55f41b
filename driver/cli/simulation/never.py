"""Why pods were never placed: the allocator's nearest miss, as things stood when nothing could happen any more."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec

from driver.allocator.miss import Miss
from driver.cli.simulation.arrivals import Arrival


class NeverPlaced(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that ask for the same, and why none of them was placed."""

    gpus: int
    """What each asks for."""
    pods: int
    first: str
    """The name of the one that waited longest."""
    reason: str
    """All of it in one line, as ``gpu-dra controller`` says it of a pod that waits."""
    nodes: int
    free_gpus: int
    """Free GPUs that match, over all nodes."""
    taken_gpus: int
    scope: str
    """What its GPUs must have in common: ``one node``."""
    largest_free_set: int
    """The most free GPUs that have the scope in common."""
    where: tuple[str, ...]
    """Where such sets are, at most three."""


def build_never_placed(
    waiting: Sequence[Arrival], kind: Callable[[Arrival], Hashable], explain: Callable[[Arrival], Miss]
) -> tuple[NeverPlaced, ...]:
    """One entry for all pods of one ``kind``, which ask for the same; who waited longest comes first."""
    alike: dict[Hashable, list[Arrival]] = {}
    for pod in waiting:
        alike.setdefault(kind(pod), []).append(pod)
    return tuple(_build(pods, explain(pods[0])) for pods in alike.values())


def _build(pods: Sequence[Arrival], miss: Miss) -> NeverPlaced:
    return NeverPlaced(
        gpus=pods[0].count,
        pods=len(pods),
        first=pods[0].name,
        reason=miss.text,
        nodes=miss.nodes,
        free_gpus=miss.free,
        taken_gpus=miss.taken,
        scope=miss.scope,
        largest_free_set=miss.largest,
        where=miss.where,
    )
