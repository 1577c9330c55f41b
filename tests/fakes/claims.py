"""A node for claims without hardware, kubelet or API server: fakes for ``driver.claims.effects``, and builders of values.

``Node`` keeps what a machine keeps (files, GPUs, boot id); ``Node.start()`` is the plugin being started on it, so starting
twice is a restart, and starting again with the first still there is a second instance. ``Node.kill_at`` names the step at
which the plugin dies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from driver.api import resource_v1
from driver.api.meta_v1 import ObjectMeta
from driver.cdi.edits import MpsAccess
from driver.cdi.store import CdiStore
from driver.claims.effects import Catalog, Incident, MigHardware
from driver.claims.metadata import MetadataFolder, MetadataPlace
from driver.claims.model import ClaimRef, Deadline, PreparedDevice
from driver.claims.prepare import ClaimPreparer, Surroundings
from driver.claims.record import ClaimRecord, RecordedDevice
from driver.claims.work import Identity
from driver.errors import ApiUnreachable, ClaimNotFound, DriverError
from driver.host.epoch import Epoch
from driver.names import ClaimUID, DeviceName, GpuUUID, PciAddress, PoolName
from driver.nvml.readings import GpuReading
from driver.topology.model import Gpu
from driver.topology.names import gpu_device_name
from tests.fakes.claim_host import VERSION, Host, NoMig

DRIVER = "gpu.nvidia.com"
POOL = PoolName("node-a")


class Killed(BaseException):
    """The process is gone. No ``except Exception`` stops this, as none stops a SIGKILL."""


def uid(number: int) -> ClaimUID:
    return ClaimUID(f"00000000-0000-4000-8000-{number:012x}")


def ref(number: int) -> ClaimRef:
    return ClaimRef(namespace="default", name=f"claim-{number}", uid=uid(number))


def device(position: int) -> DeviceName:
    return gpu_device_name(PciAddress(0, 0x10 + position, 0))


def gpu(position: int, *, uuid: str | None = None) -> Gpu:
    reading = GpuReading(
        index=position,
        uuid=GpuUUID(uuid or f"GPU-00000000-0000-0000-0000-{position:012x}"),
        pci=PciAddress(0, 0x10 + position, 0),
        minor=position,
        product_name="NVIDIA H100 80GB HBM3",
    )
    return Gpu(
        name=device(position),
        reading=reading,
        nvlink_count=0,
        island=position,
        island_size=1,
        quad=position,
        pair=position,
        component=position,
    )


def result(position: int, request: str = "gpus", **changes: Any) -> resource_v1.AllocationResult:
    return msgspec.structs.replace(
        resource_v1.AllocationResult(request=request, driver=DRIVER, pool=POOL, device=device(position)), **changes
    )


def config(
    parameters: object, source: str = "FromClaim", requests: Sequence[str] = (), driver: str = DRIVER
) -> resource_v1.AllocatedConfig:
    raw = parameters if isinstance(parameters, bytes) else json.dumps(parameters).encode()
    return resource_v1.AllocatedConfig(
        source=source,
        requests=tuple(requests),
        opaque=resource_v1.OpaqueConfig(driver=driver, parameters=msgspec.Raw(raw)),
    )


def claim(
    of: ClaimRef,
    results: Sequence[resource_v1.AllocationResult],
    configs: Sequence[resource_v1.AllocatedConfig] = (),
    annotations: Mapping[str, str] | None = None,
) -> resource_v1.ResourceClaim:
    allocation = resource_v1.Allocation(devices=resource_v1.DeviceAllocation(results=tuple(results), config=tuple(configs)))
    return resource_v1.ResourceClaim(
        metadata=ObjectMeta(name=of.name, namespace=of.namespace, uid=of.uid, annotations=dict(annotations or {})),
        status=resource_v1.ClaimStatus(allocation=allocation),
    )


class Api:
    """The API server's claims. Down when told so; counts what it is asked."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], resource_v1.ResourceClaim] = {}
        self.is_down = False
        self.reads = 0

    def put(self, *claims: resource_v1.ResourceClaim) -> None:
        for each in claims:
            self.claims[each.metadata.namespace, each.metadata.name] = each

    def delete(self, of: ClaimRef) -> None:
        del self.claims[of.namespace, of.name]

    def read_claim(self, ref: ClaimRef) -> resource_v1.ResourceClaim:
        self.reads += 1
        if self.is_down:
            raise ApiUnreachable(f"GET {ref.name}", 0, "connection refused")
        found = self.claims.get((ref.namespace, ref.name))
        if found is None:
            raise ClaimNotFound(f"{ref}: the API server has no such claim")
        return found


class Call:
    """A call of the kubelet's that lasts ``seconds``; ``hang_up`` ends it."""

    def __init__(self, seconds: float = 45.0) -> None:
        self._deadline = Deadline(seconds)
        self._is_active = True

    def deadline(self) -> Deadline:
        return self._deadline

    def is_active(self) -> bool:
        return self._is_active

    def hang_up(self) -> None:
        self._is_active = False


@dataclass
class Sharing:
    """What is set on GPUs and run beside them; ``refusals`` are the next answers."""

    applied: dict[ClaimUID, ClaimRecord] = field(default_factory=dict)
    kept: list[ClaimUID] = field(default_factory=list)
    swept: int = 0
    refusals: list[DriverError] = field(default_factory=list)

    def apply(self, record: ClaimRecord) -> None:
        self.applied[ClaimUID(record.uid)] = record
        self._refuse()

    def release(self, record: ClaimRecord, others: Iterable[ClaimRecord]) -> None:
        assert all(other.uid != record.uid for other in others)
        self._refuse()
        self.applied.pop(ClaimUID(record.uid), None)

    def has_folders(self, record: ClaimRecord) -> bool:
        return not record.is_sharing() or record.uid in self.applied

    def keep(self, record: ClaimRecord) -> None:
        if record.is_sharing():
            self.kept.append(ClaimUID(record.uid))

    def sweep(self, read_known: Callable[[], Collection[ClaimUID]]) -> None:
        read_known()
        self.swept += 1

    def read_access(self, record: ClaimRecord, device: RecordedDevice) -> MpsAccess | None:
        if device.sharing is None or device.sharing.mps is None:
            return None
        folder = f"/run/mps/{record.uid}-{device.sharing.mps.daemon}"
        return MpsAccess(pipe_folder=f"{folder}/pipe", shared_memory_folder=f"{folder}/shm")

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)


@dataclass
class Node:
    """A machine with GPUs whose plugin can be started, killed and started again."""

    folder: Path
    has_metadata: bool = False
    api: Api = field(default_factory=Api)
    host: Host = field(default_factory=Host)
    sharing: Sharing = field(default_factory=Sharing)
    mig: MigHardware = field(default_factory=NoMig)
    gpus: dict[DeviceName, Gpu] = field(default_factory=lambda: {device(n): gpu(n) for n in range(8)})
    epoch: Epoch = field(default_factory=lambda: Epoch(boot_id="boot-1", driver_version=VERSION, load_marker="inode-1"))
    attributes: dict[DeviceName, dict[str, resource_v1.Attribute]] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    kill_at: str | None = None

    @property
    def plugin(self) -> Path:
        return self.folder / "plugin"

    @property
    def cdi(self) -> Path:
        return self.folder / "cdi"

    def start(self) -> ClaimPreparer:
        preparer = ClaimPreparer(
            Surroundings(
                folder=self.plugin,
                identity=Identity(driver=DRIVER, pool=POOL),
                reader=self.api,
                catalog=self,
                cdi=CdiStore(self.cdi, f"{DRIVER}/{POOL}"),
                host=self.host,
                report=self.incidents.append,
                sharing=self.sharing,
                mig=self.mig,
                on_step=self._step,
                metadata=MetadataFolder(self._metadata_place()) if self.has_metadata else None,
            )
        )
        preparer.start()
        return preparer

    def read(self) -> Catalog:
        return Catalog(devices=dict(self.gpus), epoch=self.epoch, attributes=self.attributes, cards=dict(self.gpus))

    def reboot(self, boot_id: str = "boot-2") -> None:
        self.epoch = replace(self.epoch, boot_id=boot_id)

    def lose_nvml(self) -> None:
        self.gpus = {}
        self.epoch = replace(self.epoch, driver_version="", load_marker="")

    def records(self) -> dict[str, dict[str, Any]]:
        """What lies in the folder of records, by uid."""
        found = {}
        for path in sorted((self.plugin / "claims").iterdir(), reverse=True):
            if path.suffix in {".json", ".ending"}:
                state = {"state": "UnprepareStarted"} if path.suffix == ".ending" else {}
                found[path.stem] = json.loads(path.read_bytes())["record"] | state
        return dict(sorted(found.items()))

    def states(self) -> dict[str, str]:
        return {uid: record["state"] for uid, record in self.records().items()}

    def record_path(self, number: int) -> Path:
        return self.plugin / "claims" / f"{uid(number)}.json"

    def cdi_path(self, number: int) -> Path:
        return self.cdi / f"k8s.gpu.nvidia.com-claim_{uid(number)}.json"

    def cdi_files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.cdi.iterdir())}

    def granted(self) -> set[str]:
        """Every qualified CDI device that a runtime would find."""
        found = set()
        for data in self.cdi_files().values():
            spec = json.loads(data)
            found |= {f"{spec['kind']}={each['name']}" for each in spec["devices"]}
        return found

    def leftovers(self) -> list[str]:
        """Every file below the node but lock files and counts, relative."""
        found = []
        for base, _, names in os.walk(self.folder):
            found += [str((Path(base) / name).relative_to(self.folder)) for name in names]
        return sorted(name for name in found if not name.startswith(("plugin/locks/device-", "plugin/ended/")))

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name == self.kill_at:
            self.kill_at = None
            raise Killed(name)

    def _metadata_place(self) -> MetadataPlace:
        folder = self.plugin / "dra-device-metadata"
        return MetadataPlace(folder=folder, folder_on_host=folder, cdi_folder=self.cdi, driver=DRIVER, owner=f"{DRIVER}/{POOL}")


def prepare_one(preparer: ClaimPreparer, number: int, call: Call | None = None) -> tuple[PreparedDevice, ...] | DriverError:
    """Prepare one claim as the kubelet does; its answer or its error."""
    return preparer.prepare([ref(number)], call or Call())[uid(number)]


def unprepare_one(preparer: ClaimPreparer, number: int, call: Call | None = None) -> DriverError | None:
    """Unprepare one claim as the kubelet does; None or its error."""
    return preparer.unprepare([ref(number)], call or Call())[uid(number)]
