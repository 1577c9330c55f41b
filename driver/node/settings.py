"""What the node half needs to know: plain values, which ``cli`` takes from the process's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driver.names import PoolName
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.diff import PoolIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """One node's."""

    driver_name: str
    node_name: str
    allocator: Allocator
    kubelet_root: Path
    registry_dir: Path
    plugin_dir: Path
    cdi_root: Path
    instance: str | None = None
    """The pod's uid, else None: a random word."""
    probe_address: str | None = None

    @property
    def pool(self) -> PoolIdentity:
        """One pool a node, named after it (B29)."""
        return PoolIdentity(driver=self.driver_name, node_name=self.node_name, pool=PoolName(self.node_name))

    @property
    def owner(self) -> str:
        """The mark on this node's files in folders that it shares."""
        return f"{self.driver_name}/{self.node_name}"
