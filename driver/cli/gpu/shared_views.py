"""What several commands of ``kubectl gpu`` say alike in ``-o json``: a claim, its devices, who has something, a node."""

from __future__ import annotations

from driver.cli.view import View


class HeldView(View, frozen=True, kw_only=True):
    """A claim that has something."""

    claim: str
    """``namespace/name``."""
    pods: tuple[str, ...]
    """Those that it is reserved for, in its namespace."""
    since: str
    allocator: str
    """``controller`` or ``kube-scheduler``: who allocated it."""


class AnyClaimView(View, frozen=True, kw_only=True):
    """A claim, whether it has devices or not."""

    claim: str
    """``namespace/name``."""
    state: str
    """``allocated`` or ``waiting``; ``missing`` where a pod names one that is not there."""
    node: str | None
    since: str | None
    """When it was allocated."""
    allocator: str | None
    pods: tuple[str, ...]
    """Those that it is reserved for, in its namespace."""


class ClaimDeviceView(View, frozen=True, kw_only=True):
    """A device of a claim."""

    request: str
    driver: str
    pool: str
    device: str
    gpu: int | None
    """The GPU that it is, or is a part of; ``null`` where the node publishes only parts of it, or is not known."""
    is_admin: bool
    """The claim only watches: others may have the device, too."""


class AnyNodeView(View, frozen=True, kw_only=True):
    """A node with devices."""

    node: str
    allocator: str
    """Who may allocate its devices: ``controller``, ``scheduler``, ``draining`` (nobody now), ``mixed``."""
    is_cordoned: bool
    """New pods are kept away."""
    product: str
