"""The real NVML, over ``nvidia-ml-py``: the only package that imports ``pynvml``.

NVML may be absent; this is said by ``init``, never by the import.
"""

from __future__ import annotations

from driver.nvml.real.conditions import ConditionCalls
from driver.nvml.real.devices import DeviceCalls
from driver.nvml.real.events import EventCalls
from driver.nvml.real.instances import InstanceCalls


class RealNvml(DeviceCalls, InstanceCalls, ConditionCalls, EventCalls):
    """See ``NvmlLibrary``. ``RealNvml(library_path)`` loads that file; without one, the loader finds ``libnvidia-ml.so.1``.

    A process has one NVML library open at a time: ``init`` with another path meanwhile says ALREADY_INITIALIZED.
    """


__all__ = ["RealNvml"]
