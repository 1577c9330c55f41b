"""What ``kubectl gpu status -o json`` prints. The names are a stable interface: fields are added, none is changed.

Every field is always there. Times are RFC 3339. GPUs of a node are called by their position, which counts from 0 in order of
PCI address, islands by the order of their first GPU.
"""

from __future__ import annotations

from driver.cli.gpu.shared_views import AnyClaimView, AnyNodeView, ClaimDeviceView, HeldView
from driver.cli.view import View

STATUS_FORMAT = "gpu-dra.io/status/v1"


class TroubleView(View, frozen=True, kw_only=True):
    """A taint on devices of one GPU, other than the fence."""

    node: str
    gpu: int | None
    """``null`` where the node publishes only parts of the GPU."""
    device: str
    devices: int
    """How many devices of the GPU have it: ``device`` is the first."""
    key: str
    value: str
    effect: str
    """``NoSchedule`` and ``NoExecute`` keep claims away; any other effect only tells."""
    is_blocking: bool
    since: str | None
    source: str
    """``slice`` (the node's driver says it) or the name of a DeviceTaintRule."""
    text: str
    """In words."""


class ConditionView(View, frozen=True, kw_only=True):
    """What the node says of a device in a claim."""

    type: str
    status: str
    reason: str
    message: str
    since: str | None


class UseView(HeldView, frozen=True, kw_only=True):
    """A claim that has the GPU, or a part of it."""

    request: str
    device: str
    profile: str | None
    """Of a MIG device."""
    memory: str | None
    """Of a share: what the claim has of the GPU's memory."""
    memory_slices: tuple[int, ...]
    """Of a MIG device, where it is told: which of the GPU's memory slices it takes."""


class GpuStatusView(View, frozen=True, kw_only=True):
    """One GPU."""

    gpu: int | None
    """``null`` where the node publishes only parts of it."""
    device: str
    product: str
    memory: str
    """A Kubernetes quantity; empty where it is not told."""
    numa_node: int | None
    pcie_root: str | None
    island: int | None
    pair: int | None
    """The lowest position in the pair; ``null`` where there is none."""
    state: str
    """``free``, ``allocated`` (a claim has it whole), ``parts`` (claims have parts of it), ``unfit`` (nobody's, and a taint
    keeps claims away), ``closed`` (nobody's, and it cannot be had now), ``unknown`` (claims may not be read)."""
    is_healthy: bool
    """No taint keeps claims away, somebody's or not."""
    is_shareable: bool
    """Several claims may have shares of it."""
    memory_slices: int
    """Into which MIG divides it; 0 where it is not divided."""
    uses: tuple[UseView, ...]
    free_parts: dict[str, int]
    """By MIG profile: devices that are free, each looked at alone."""


class CountsView(View, frozen=True, kw_only=True):
    """Whole GPUs: ``gpus`` is the sum of all but ``allocatable`` and ``unhealthy``, which count whoever has them."""

    gpus: int
    allocatable: int
    """Without a taint in the way, on nodes that are not between two allocators."""
    free: int
    allocated: int
    """Wholly or in part."""
    unfit: int
    """Nobody's, and tainted."""
    closed: int
    """Nobody's, and not to be had now for another reason."""
    unknown: int
    unhealthy: int


class IslandSizeView(View, frozen=True, kw_only=True):
    """NVLink islands of one size."""

    size: int
    islands: int
    free: int
    """Of which every GPU is free."""


class NodeStatusView(AnyNodeView, frozen=True, kw_only=True):
    """One node."""

    is_ready: bool
    counts: CountsView
    islands: tuple[IslandSizeView, ...]
    mig_devices: int
    """That claims have."""
    shares: int
    """That claims have."""
    gpus: tuple[GpuStatusView, ...]


class ProductStatusView(View, frozen=True, kw_only=True):
    """All nodes of one product and one allocator together."""

    product: str
    allocator: str
    nodes: int
    counts: CountsView
    islands: tuple[IslandSizeView, ...]
    mig_devices: int
    shares: int


class WaitView(View, frozen=True, kw_only=True):
    """A claim that waits for devices."""

    claim: str
    pods: tuple[str, ...]
    since: str
    """When its first pod was made; the claim, where no pod uses it."""
    requests: tuple[str, ...]
    """In words."""
    fault: str
    """What somebody has to mend first; empty where nothing is known to be wrong."""


class HeldDeviceView(ClaimDeviceView, frozen=True, kw_only=True):
    """A device of a claim, and how it is."""

    node: str | None
    troubles: tuple[TroubleView, ...]
    conditions: tuple[ConditionView, ...]


class ClaimStatusView(AnyClaimView, frozen=True, kw_only=True):
    """A claim with its devices and how they are."""

    devices: tuple[HeldDeviceView, ...]


class SubjectView(View, frozen=True, kw_only=True):
    """What was asked about."""

    kind: str
    """``node``, ``pod`` or ``claim``."""
    namespace: str
    name: str


class StatusView(View, frozen=True, kw_only=True):
    """``kubectl gpu status``. Of a subject only what concerns it is there."""

    format: str = STATUS_FORMAT
    driver: str
    subject: SubjectView | None
    counts: CountsView
    products: tuple[ProductStatusView, ...]
    nodes: tuple[NodeStatusView, ...]
    troubles: tuple[TroubleView, ...]
    claims: tuple[ClaimStatusView, ...]
    """Of a pod or a claim; without a subject, those of which a node says that a device is not well."""
    waiting: tuple[WaitView, ...]
    notes: tuple[str, ...]
