"""What the node half needs to know: plain values, which ``cli`` takes from the process's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from driver.names import PoolName
from driver.node.health.watch import HealthSettings
from driver.resourceslice.attributes import Allocator
from driver.resourceslice.diff import PoolIdentity
from driver.resourceslice.shares import NO_SHARES, ShareSetting
from driver.topology.mig_offer import MigSetting

DRAIN_S = 900.0
"""kube-scheduler waits for volumes and devices for 600 s, and for a gang for 300 s, before it writes what it chose."""
CONTROLLER_LEASE = "gpu-dra/gpu-dra-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """One node's."""

    driver_name: str
    node_name: str
    allocator: Allocator
    """Whose the devices are, unless the node's label says otherwise."""
    drain_s: float = DRAIN_S
    controller_lease: str = CONTROLLER_LEASE
    kubelet_root: Path
    registry_dir: Path
    plugin_dir: Path
    cdi_root: Path
    mps_dir: Path
    """Folders of MPS daemons, on a file system in memory: containers have theirs as ``/dev/shm``."""
    isolates_mps: bool = True
    """False on a mock, whose daemons share no memory with anybody."""
    mig: MigSetting = MigSetting.OFF
    shares: ShareSetting = NO_SHARES
    health: HealthSettings = field(default_factory=HealthSettings)
    instance: str | None = None
    """The pod's uid, else None: a random word."""
    probe_address: str | None = None
    metrics_address: str = ""
    """Empty: figures are not served."""

    @property
    def pool(self) -> PoolIdentity:
        """One pool a node, named after it (B29)."""
        return PoolIdentity(driver=self.driver_name, node_name=self.node_name, pool=PoolName(self.node_name))

    @property
    def owner(self) -> str:
        """The mark on this node's files in folders that it shares."""
        return f"{self.driver_name}/{self.node_name}"
