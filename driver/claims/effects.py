"""What preparing a claim needs of the world, as small protocols. The program gives the real ones, tests give fakes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from driver.api import resource_v1
from driver.cdi.edits import MpsAccess
from driver.claims.model import ClaimRef
from driver.claims.record import ClaimRecord, RecordedDevice
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles
from driver.host.epoch import Epoch
from driver.names import ClaimUID, DeviceName
from driver.nvml.library import GpuInstanceProfileInfo, Placement
from driver.nvml.readings import GpuInstanceReading, MigReading
from driver.topology.mig import NodeDevice
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

    devices: Mapping[DeviceName, NodeDevice]
    epoch: Epoch
    attributes: Mapping[DeviceName, Mapping[str, resource_v1.Attribute]] = field(default_factory=dict)
    """What the slices say of each device; for the metadata files."""
    unread: str = ""
    """Why the machine has not been read yet; empty once it has been, whatever it said."""
    divided: frozenset[DeviceName] = frozenset()
    """The GPUs on which claims make MIG devices."""
    cards: Mapping[DeviceName, Gpu] = field(default_factory=dict)
    """Every GPU that answered, whether it may be given out or not."""

    def card(self, name: DeviceName) -> Gpu | None:
        """A GPU by its device's name."""
        return self.cards.get(name)


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

    def read_mig_nodes(self, minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        """The two capabilities of a MIG device. Raises ``DeviceNotReady`` naming the path."""

    def has_mig_instances(self, minor: int) -> bool:
        """Whether somebody has divided the GPU with this minor number."""

    def read_control_nodes(self) -> tuple[DeviceNode, ...]:
        """Raises ``DeviceNotReady`` naming the path."""

    def read_driver_files(self, driver_version: str) -> DriverFiles:
        """Raises ``DeviceNotReady`` saying what was looked for, and where."""


class MigGpu(Protocol):
    """The MIG of one GPU, while NVML is open. Every method raises ``NvmlError``."""

    def read(self) -> MigReading:
        """Mode, profiles, instances, as they are now."""

    def switch_mode(self, *, enabled: bool) -> None:
        """Set the MIG mode, and see that it is set."""

    def create_gpu_instance(self, profile_id: int, placement: Placement) -> GpuInstanceReading:
        """A GPU instance without compute instances."""

    def create_compute_instance(self, instance_id: int, profile: GpuInstanceProfileInfo) -> GpuInstanceReading:
        """The compute instance that is the whole of its GPU instance."""

    def destroy_compute_instances(self, instance_id: int) -> None:
        """All of a GPU instance."""

    def destroy_gpu_instance(self, instance_id: int) -> None:
        """One without compute instances."""


class MigHardware(Protocol):
    """NVML, as far as MIG devices are made and removed (``driver.nvml.mig_machine.MigMachine``)."""

    def open_gpu(self, uuid: str) -> AbstractContextManager[MigGpu]:
        """Raises ``NvmlError``: there is no such GPU, or no driver."""


class SharingEffects(Protocol):
    """What is set on GPUs and run beside them so that the devices of a claim can be shared. Each is safe to do twice."""

    def apply(self, record: ClaimRecord) -> None:
        """Set what the record says, and wait until its daemons answer.

        Raises:
            DeviceNotReady: the hardware or a daemon refuses.
        """

    def release(self, record: ClaimRecord, others: Iterable[ClaimRecord]) -> None:
        """Take it back, but for what one of the ``others`` on the same GPU has set too. NVML may be gone.

        Raises:
            DeviceNotReady: it is not taken back yet.
        """

    def has_folders(self, record: ClaimRecord) -> bool:
        """Whether the folders of the claim's daemons are there: they lie in memory, and containers are given them."""

    def keep(self, record: ClaimRecord) -> None:
        """The claim is prepared: look after its daemons, and start again those that have died. Returns at once."""

    def sweep(self, read_known: Callable[[], Collection[ClaimUID]]) -> None:
        """End daemons of claims that nothing is known of. A record is older than its daemon: it is asked for second."""

    def read_access(self, record: ClaimRecord, device: RecordedDevice) -> MpsAccess | None:
        """What a container needs to reach the daemon that serves the device."""


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
