"""A node of H100 for claims: the fakes of ``claims``, but with a mock machine's MIG behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from driver.claims.effects import Catalog
from driver.claims.mig_upkeep import read_mig_claims
from driver.claims.prepare import ClaimPreparer
from driver.host.capabilities import has_instances, read_mig_nodes
from driver.host.device_nodes import DeviceNode
from driver.host.roots import Roots
from driver.names import DeviceName
from driver.nvml.library import NvmlLibrary
from driver.nvml.mig_machine import MigMachine
from driver.nvml.mock import open_mock
from driver.nvml.mock.faults import Fault
from driver.nvml.mock.machine import MockMachine, write_faults
from driver.nvml.reader import read_machine
from driver.nvml.readings import MachineReading
from driver.topology.build import build_topology
from driver.topology.mig import NodeDevice
from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers
from tests.fakes.claim_host import Host
from tests.fakes.claims import Node

MACHINE = "hgx-h100-4"
GPU = DeviceName("gpu-0000-06-00-0")


class NoSysfs:
    """Nothing that the kernel says matters here."""

    def numa_node(self, pci: object) -> int | None:
        return None

    def pcie_root(self, pci: object) -> str | None:
        return None


@dataclass
class MigHost(Host):
    """Capabilities are the mock's own files."""

    roots: Roots = field(default_factory=Roots)

    def has_mig_instances(self, minor: int) -> bool:
        return has_instances(self.roots, minor)

    def read_mig_nodes(self, minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        return read_mig_nodes(self.roots, minor, gpu_instance, compute_instance)


@dataclass
class MigNode(Node):
    """The catalog follows the machine, and is dynamic unless said otherwise."""

    setting: MigSetting = MigSetting.DYNAMIC
    machine: str = MACHINE
    last: ClaimPreparer | None = None
    mock: MockMachine = field(init=False)

    def __post_init__(self) -> None:
        self.mock = open_mock(self.machine, self.mock_state)
        self.mig = MigMachine(self.opened)
        self.host = MigHost(roots=self.mock.roots)

    @property
    def mock_state(self) -> Path:
        return self.folder / "mock"

    @contextmanager
    def opened(self) -> Iterator[NvmlLibrary]:
        self.mock.library.init()
        try:
            yield self.mock.library
        finally:
            self.mock.library.shutdown()

    def start(self) -> ClaimPreparer:
        self.last = super().start()
        return self.last

    def play(self, *faults: Fault) -> None:
        write_faults(self.mock_state, faults)

    def look(self) -> MachineReading:
        with self.opened() as library:
            return read_machine(library, NoSysfs())

    def instances(self) -> list[tuple[str, int, int, int]]:
        """GPU, profile, start and number of compute instances of each."""
        topology = build_topology(self.look())
        return [
            (gpu.name, each.profile_id, each.placement.start, len(each.compute))
            for gpu in topology.gpus
            if gpu.reading.mig is not None
            for each in gpu.reading.mig.instances
        ]

    def divided(self) -> list[str]:
        """GPUs in MIG mode."""
        return [gpu.name for gpu in build_topology(self.look()).gpus if gpu.reading.is_mig_enabled]

    def read(self) -> Catalog:
        topology = build_topology(self.look())
        owned = read_mig_claims(self.last.work).owned if self.last is not None else frozenset()
        offers = build_offers(topology, OfferInputs(setting=self.setting, has_counters=True, owned=owned))
        devices: dict[DeviceName, NodeDevice] = {offer.gpu.name: offer.gpu for offer in offers if offer.is_whole}
        devices |= {each.name: each for offer in offers for each in offer.partitions}
        return Catalog(
            devices=devices,
            epoch=self.epoch,
            divided=frozenset(offer.gpu.name for offer in offers if offer.is_dynamic),
            cards={gpu.name: gpu for gpu in topology.gpus},
        )

    def leftovers(self) -> list[str]:
        return [name for name in super().leftovers() if not name.startswith("mock/")]
