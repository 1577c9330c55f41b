"""What ``kubectl gpu -o json`` prints. The names are a stable interface: fields are added, none is changed.

Every field is always there. Times are RFC 3339. GPUs of a node are called by their position, which counts from 0 in order of
PCI address, islands by the order of their first GPU.
"""

from __future__ import annotations

from driver.cli.gpu.shared_views import AnyClaimView, AnyNodeView, ClaimDeviceView, HeldView
from driver.cli.view import View

FRAGMENTATION_FORMAT = "gpu-dra.io/fragmentation/v1"
EXPLAIN_FORMAT = "gpu-dra.io/explain/v1"


class HolderView(HeldView, frozen=True, kw_only=True):
    """A claim that has GPUs which somebody else would like."""

    gpus: int
    """How many of those that are talked of."""


class WayView(View, frozen=True, kw_only=True):
    """A set of GPUs of which some have to come free, and the fewest claims that have to end for that."""

    node: str
    scope: str
    size: int
    gpus: tuple[int, ...]
    """The GPUs that have the scope in common; more than ``size`` where any of them will do."""
    free: int
    held_by: tuple[HolderView, ...]


class IslandView(View, frozen=True, kw_only=True):
    """An NVLink island of a node."""

    island: int
    gpus: int
    free: int


class LargestView(View, frozen=True, kw_only=True):
    """The largest request for whole GPUs that fits now when its scope is required, and where."""

    allocator: str
    scope: str
    size: int
    nodes: tuple[str, ...]
    next_size: int | None
    """The next larger size that people ask for; ``null`` where no machine has that many."""
    ways: tuple[WayView, ...]
    """What stands in its way where the least does, at most three nodes."""


class FreeNodeView(AnyNodeView, frozen=True, kw_only=True):
    """One node's whole GPUs, and its MIG devices. One that is cordoned counts for no request."""

    gpus: int
    free: int
    allocated: int
    unavailable: int
    """Tainted, and nobody's."""
    sets: dict[str, int]
    """By size: how many of the machine's best sets of so many GPUs are free at the same time."""
    islands: tuple[IslandView, ...]
    partitions: dict[str, int]
    """By MIG profile: devices that are free, each looked at alone."""


class FreeProductView(View, frozen=True, kw_only=True):
    """All nodes of one product and one allocator together."""

    allocator: str
    product: str
    nodes: int
    gpus: int
    free: int
    allocated: int
    unavailable: int
    sets: dict[str, int]
    possible: dict[str, int]
    """By size: as many sets as the free GPUs could make if they stood together."""
    partitions: dict[str, int]


class FragmentationView(View, frozen=True, kw_only=True):
    """``kubectl gpu fragmentation``."""

    format: str = FRAGMENTATION_FORMAT
    driver: str
    products: tuple[FreeProductView, ...]
    largest: tuple[LargestView, ...]
    nodes: tuple[FreeNodeView, ...]
    notes: tuple[str, ...]


class EventView(View, frozen=True, kw_only=True):
    """Something that was said about the object."""

    time: str
    reason: str
    note: str
    reporter: str


class DeviceView(ClaimDeviceView, frozen=True, kw_only=True):
    """A device of a claim, and where it is."""

    product: str
    island: int | None


class ClaimView(AnyClaimView, frozen=True, kw_only=True):
    """A claim of the pod: what it asks for, and what it has."""

    requests: tuple[str, ...]
    """In words."""
    devices: tuple[DeviceView, ...]
    quality: str
    """How well the GPUs are linked, in words; empty where there is nothing to say."""


class PodView(View, frozen=True, kw_only=True):
    """A pod that uses the claims."""

    pod: str
    phase: str
    node: str | None
    since: str
    """When it was made."""
    state: str
    """In words: what it is about to do, or why it is not."""


class NodeAnswer(View, frozen=True, kw_only=True):
    """One node, and why it is no place for what waits."""

    node: str
    verdict: str
    """``fits``, ``held``, ``pod``, ``devices``, ``none``, ``controller``, ``scheduler``, ``draining``, ``incomplete``."""
    reasons: tuple[str, ...]
    need: int
    """Devices that the request asks for which is hardest to have; 0 is all."""
    free: int
    """Devices that match it and are free."""
    largest: int
    """The most of them that have in common what they must."""
    ways: tuple[WayView, ...]
    """What stands in the way, where GPUs have to come free."""


class ExplainView(View, frozen=True, kw_only=True):
    """``kubectl gpu explain``."""

    format: str = EXPLAIN_FORMAT
    kind: str
    namespace: str
    name: str
    state: str
    """``waiting``, ``placeable``, ``leftAlone``, ``blocked``, ``allocated``, ``running``, ``ended``, ``unused``."""
    summary: str
    advice: tuple[str, ...]
    pods: tuple[PodView, ...]
    claims: tuple[ClaimView, ...]
    nodes: tuple[NodeAnswer, ...]
    events: tuple[EventView, ...]
    notes: tuple[str, ...]
