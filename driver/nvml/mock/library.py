"""The mock library: every call of ``NvmlLibrary``, answered from a machine."""

from __future__ import annotations

from driver.nvml.mock.condition_calls import ConditionCalls
from driver.nvml.mock.devices import DeviceCalls
from driver.nvml.mock.events import EventCalls
from driver.nvml.mock.instances import InstanceCalls


class MockNvml(DeviceCalls, InstanceCalls, ConditionCalls, EventCalls):
    """NVML without NVIDIA hardware; ``open_mock`` makes one."""
