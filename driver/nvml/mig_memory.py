"""A GPU whose MIG could not be read in one pass has it as the pass before said: a failing call takes nobody's device away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from driver.names import GpuUUID
from driver.nvml.readings import GpuReading, MachineReading, MigReading


@dataclass(slots=True)
class MigMemory:
    """What the last pass that could read it said of each GPU's MIG. For one thread."""

    _driver_version: str = ""
    _known: dict[GpuUUID, MigReading] = field(default_factory=dict)

    def complete(self, reading: MachineReading) -> MachineReading:
        """``reading``, in which what a GPU with a fault did not tell is what it told last. The fault stays in it.

        Another driver may have other profiles and renumbers instances: what an earlier one said is forgotten then.
        """
        if reading.driver_version != self._driver_version:
            self._known.clear()
            self._driver_version = reading.driver_version
        gpus = tuple(map(self._complete, reading.gpus))
        return reading if gpus == reading.gpus else replace(reading, gpus=gpus)

    def _complete(self, gpu: GpuReading) -> GpuReading:
        now = gpu.mig
        if now is None or not now.fault:
            if now is not None:
                self._known[gpu.uuid] = now
            return gpu
        before = self._known.get(gpu.uuid)
        if before is None or (now.is_mode_known and now.is_enabled != before.is_enabled):
            return gpu
        after_reset = now.is_enabled_after_reset if now.is_mode_known else before.is_enabled_after_reset
        return replace(gpu, mig=replace(before, is_enabled_after_reset=after_reset, fault=now.fault))
