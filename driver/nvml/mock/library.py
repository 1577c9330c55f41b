"""The mock library: every call of ``NvmlLibrary``, answered from a machine."""

from __future__ import annotations

from driver.nvml.mock.devices import DeviceCalls
from driver.nvml.mock.events import EventCalls
from driver.nvml.mock.instances import InstanceCalls


class MockNvml(DeviceCalls, InstanceCalls, EventCalls):
    """NVML without NVIDIA hardware; ``open_mock`` makes one."""
