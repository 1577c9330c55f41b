"""MIG devices that a claim makes and removes: the mode of the GPU, the GPU instance, the compute instance.

The record of the claim is written before the first of them and deleted after the last, so an instance that no record answers
for is never ours, and never touched (B38). Each step looks first, so each is safe to take twice, and a process may die between
any two: a GPU instance without its compute instance is found by profile and place, as any other. The caller holds the lock of
the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

from driver import log
from driver.claims.effects import MigGpu, MigHardware
from driver.claims.mig_debts import Debt, MigDebts
from driver.claims.mig_made import add_made
from driver.claims.mig_record import RecordedMig
from driver.claims.model import ClaimRef
from driver.claims.plan import ClaimPlan, PlannedDevice
from driver.claims.record import ClaimRecord
from driver.errors import DeviceNotReady, MigRefused, NvmlError
from driver.nvml.calls import NVML_CALLS
from driver.nvml.library import Code
from driver.nvml.mig_machine import NOT_LOADED
from driver.nvml.readings import GpuInstanceReading, MigReading
from driver.topology.mig import MadeInstance, gpu_of, is_overlap

_LOG = log.logger(__name__)

Announce: TypeAlias = Callable[[str], None]
"""Told each step before it is taken."""

_AWAY = NOT_LOADED | {Code.GPU_IS_LOST}
"""Nothing can be removed now, and holding the claim up would not help: a drain that waits for it replaces the driver (R29)."""

_FIND_CARD = NVML_CALLS["device_handle_by_uuid"]

_ADVICE = {
    Code.IN_USE: "something holds the GPU open, such as a monitoring client (DCGM, nvidia-smi); it is tried again",
    Code.RESET_REQUIRED: "the GPU has to be reset first",
    Code.INSUFFICIENT_RESOURCES: "something that no claim made takes the place; see `nvidia-smi mig -lgi`",
}


@dataclass(frozen=True, slots=True)
class MigInstances:
    """Makes and removes the MIG devices of claims."""

    hardware: MigHardware
    debts: MigDebts

    def make_ready(self, plan: ClaimPlan, divided: Collection[str], before: ClaimRecord | None, announce: Announce) -> None:
        """See that nobody's instance lies in the way, before anything is recorded; take MIG mode from a GPU given out whole.

        A GPU that is neither one of ``divided`` nor owes us its mode is given out whole without a look: NVML is slow to open.
        ``before`` is an earlier record of the same claim: an instance that it made may be there still.

        Raises:
            MigRefused, DeviceNotReady: nothing was changed.
        """
        earlier = () if before is None else before.own_instances()
        for uuid, devices in self._choose_looks(plan, divided).items():
            with self._open(plan.ref, uuid) as gpu:
                reading = gpu.read()
                for device in devices:
                    _require_free(plan.ref, device, reading, earlier)
                if reading.is_enabled and any(device.partition is None for device in devices):
                    announce("mig-mode-off")
                    gpu.switch_mode(enabled=False)

    def make(self, record: ClaimRecord, announce: Announce) -> ClaimRecord:
        """Make what the record says; the record with what came of it.

        Raises:
            MigRefused, DeviceNotReady: some of it may have been made; ``remove`` undoes it.
        """
        made: dict[RecordedMig, MadeInstance] = {}
        for uuid, instances in _group(record).items():
            with self._open(record.ref(), uuid) as gpu:
                for mig in instances:
                    made[mig] = _make_one(record.ref(), gpu, mig, announce)
        return add_made(record, made)

    def remove(self, record: ClaimRecord, others: Iterable[ClaimRecord], announce: Announce) -> None:
        """Remove what the record says, whatever of it was made; never what the record of one of ``others`` answers for.

        Without a driver there is nothing to be removed from: it is noted, and done when the driver is back (R29).

        Raises:
            MigRefused: not now; the claim keeps its devices (B45).
        """
        kept = [device.footprint for other in others for device in other.devices if not device.is_admin]
        for uuid, instances in _group(record).items():
            own = [mig for mig in instances if not any(mig.footprint.overlaps(each) for each in kept)]
            try:
                with self._open(record.ref(), uuid) as gpu:
                    for mig in own:
                        _remove_one(gpu, mig, announce)
                    if any(mig.is_mode_own for mig in own):
                        self._switch_off(record, gpu, own[0], announce)
            except _CardGone:
                continue
            except _Away as err:
                log.event(_LOG, log.WARNING, "MIG instances are removed when the driver is back", gpu=uuid, error=err)
                for mig in own:
                    self.debts.add(mig, record)

    def pay(self, debt: Debt) -> None:
        """Do what could not be done when the claim ended.

        Raises:
            MigRefused, DeviceNotReady: not yet.
        """
        with suppress(_CardGone), self._open(debt.ref(), debt.mig.gpu_uuid) as gpu:
            if not debt.is_mode_only:
                _remove_one(gpu, debt.mig, lambda _step: None)
            if debt.mig.is_mode_own and _is_idle(gpu.read()):
                gpu.switch_mode(enabled=False)

    def _choose_looks(self, plan: ClaimPlan, divided: Collection[str]) -> Mapping[str, list[PlannedDevice]]:
        """By GPU, the devices for which MIG has to be looked at."""
        found: dict[str, list[PlannedDevice]] = {}
        for device in plan.devices:
            if device.is_admin:
                continue
            if device.partition is None:
                if device.is_divided and (device.device in divided or self._owes_mode(device.device)):
                    found.setdefault(device.uuid, []).append(device)
            elif device.partition.made is None:
                found.setdefault(gpu_of(device.partition).reading.uuid, []).append(device)
        return found

    def _owes_mode(self, gpu: str) -> bool:
        return any(debt.mig.gpu == gpu for debt in self.debts.read_all())

    def _switch_off(self, record: ClaimRecord, gpu: MigGpu, mig: RecordedMig, announce: Announce) -> None:
        """Give the GPU back as it was. Where that fails nobody is held up: it is noted, and the next whole claim asks again."""
        if not _is_idle(gpu.read()):
            return
        announce("mig-mode-off")
        try:
            gpu.switch_mode(enabled=False)
        except NvmlError as err:
            log.event(_LOG, log.WARNING, "a GPU stays in MIG mode for now", gpu=mig.gpu_uuid, error=err)
            self.debts.add(mig, record, is_mode_only=True)

    @contextmanager
    def _open(self, ref: ClaimRef, uuid: str) -> Iterator[MigGpu]:
        try:
            with self.hardware.open_gpu(uuid) as gpu:
                yield gpu
        except NvmlError as err:
            if err.code == Code.NOT_FOUND and err.call == _FIND_CARD:
                raise _CardGone(f"{ref}: there is no GPU {uuid} any more") from err
            if err.code in _AWAY:
                raise _Away(f"{ref}: GPU {uuid} cannot be asked now: {err}") from err
            advice = _ADVICE.get(Code(err.code)) if err.code in Code.__members__.values() else None
            raise MigRefused(f"{ref}: MIG on GPU {uuid}: {err}{f': {advice}' if advice else ''}") from err


class _Away(DeviceNotReady):
    """There is no driver, or the GPU is lost."""


class _CardGone(DeviceNotReady):
    """The card was taken out, and its instances with it."""


def _group(record: ClaimRecord) -> Mapping[str, list[RecordedMig]]:
    found: dict[str, list[RecordedMig]] = {}
    for mig in record.own_instances():
        found.setdefault(mig.gpu_uuid, []).append(mig)
    return found


def _require_free(ref: ClaimRef, device: PlannedDevice, reading: MigReading, earlier: Iterable[RecordedMig]) -> None:
    own = {(mig.profile_id, mig.placement) for mig in earlier}
    memory = device.footprint.memory
    for each in reading.instances:
        is_own = (each.profile_id, each.placement) in own
        if not is_own and (memory is None or is_overlap(memory, each.placement)):
            raise MigRefused(
                f"{ref}: device {device.device}: GPU instance {each.id} (profile {each.profile_id}, memory slices from "
                f"{each.placement.start}) lies there, and no claim made it; it is tried again until somebody removes it"
            )


def _make_one(ref: ClaimRef, gpu: MigGpu, mig: RecordedMig, announce: Announce) -> MadeInstance:
    reading = gpu.read()
    if not reading.is_enabled:
        if not mig.is_mode_own:
            raise MigRefused(f"{ref}: GPU {mig.gpu_uuid} is not in MIG mode any more, and changes it only with a reset")
        announce("mig-mode-on")
        gpu.switch_mode(enabled=True)
        reading = gpu.read()
    instance = _find(reading, mig)
    if instance is None:
        announce("gpu-instance")
        instance = gpu.create_gpu_instance(mig.profile_id, mig.placement)
    if not instance.compute:
        announce("compute-instance")
        profile = next(each.info for each in reading.profiles if each.info.id == mig.profile_id)
        instance = gpu.create_compute_instance(instance.id, profile)
    if len(instance.compute) != 1:
        raise MigRefused(f"{ref}: GPU instance {instance.id} of GPU {mig.gpu_uuid} was divided by somebody else")
    compute = instance.compute[0]
    return MadeInstance(gpu_instance_id=instance.id, compute_instance_id=compute.id, uuid=compute.uuid)


def _remove_one(gpu: MigGpu, mig: RecordedMig, announce: Announce) -> None:
    instance = _find(gpu.read(), mig)
    if instance is None:
        return
    if instance.compute:
        announce("destroy-compute-instance")
        gpu.destroy_compute_instances(instance.id)
    announce("destroy-gpu-instance")
    gpu.destroy_gpu_instance(instance.id)
    if _find(gpu.read(), mig) is not None:
        raise NvmlError("nvmlGpuInstanceDestroy (without effect)", Code.INVALID_STATE, Code.INVALID_STATE.name)


def _find(reading: MigReading, mig: RecordedMig) -> GpuInstanceReading | None:
    return next((each for each in reading.instances if mig.is_at(each.profile_id, each.placement)), None)


def _is_idle(reading: MigReading) -> bool:
    return reading.is_enabled and not reading.instances
