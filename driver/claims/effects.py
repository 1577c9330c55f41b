"""What preparing a claim needs of the world, as small protocols. The program gives the real ones, tests give fakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from driver.api import resource_v1
from driver.claims.model import ClaimRef
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles
from driver.host.epoch import Epoch
from driver.names import DeviceName
from driver.topology.model import Gpu


class ClaimReader(Protocol):
    """The API server, as far as a claim is read from it."""

    def read_claim(self, ref: ClaimRef) -> resource_v1.ResourceClaim:
        """The claim of this namespace and name, as it is now.

        Raises:
            ClaimNotFound: there is none.
            ApiError: the server cannot be asked, or refuses.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The node's devices now. Empty, and with an epoch of unknown driver version, while NVML is not there."""

    devices: Mapping[DeviceName, Gpu]
    epoch: Epoch
    attributes: Mapping[DeviceName, Mapping[str, resource_v1.Attribute]] = field(default_factory=dict)
    """What the slices say of each device; for the metadata files."""
    unread: str = ""
    """Why the machine has not been read yet; empty once it has been, whatever it said."""


class DeviceCatalog(Protocol):
    """What the node has now."""

    def read(self) -> Catalog:
        """The current devices. Cheap, asked at each prepare; waits a moment for the first pass over the machine.

        Raises:
            DeviceNotReady: not even the boot id can be read.
        """


class HostFacts(Protocol):
    """The host's files that containers get (``driver.cdi.host.HostFacts``)."""

    def read_gpu_node(self, minor: int) -> DeviceNode:
        """Raises ``DeviceNotReady`` naming the path."""

    def read_control_nodes(self) -> tuple[DeviceNode, ...]:
        """Raises ``DeviceNotReady`` naming the path."""

    def read_driver_files(self, driver_version: str) -> DriverFiles:
        """Raises ``DeviceNotReady`` saying what was looked for, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that people must hear of beside the answer to a call: an event on the node and a log line."""

    reason: str
    """CamelCase, as Kubernetes events have it."""
    message: str
    ref: ClaimRef | None = None


Report: TypeAlias = Callable[[Incident], None]
OnStep: TypeAlias = Callable[[str], None]
"""Called with the name of each step before it is taken: for metrics, and for tests that kill the process there."""
