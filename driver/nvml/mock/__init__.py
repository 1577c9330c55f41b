"""A mock NVML: machines as data, an engine that refuses what hardware refuses, faults at run time, the node's files.

    boards.yaml mig.yaml machines/*.yaml ─ yaml_text ─ document ─ build(boards, wiring, levels) ─▶ model.Machine
    model.Machine ─▶ standin, capabilities, nvidia_smi: <state dir>/root      (what the node's folders would hold)
                  └▶ library(session, devices, instances, events)             (what NVML would say)
                        ├ mig: what MIG allows, pure   ├ state: <state dir>/mig.json   └ faultbook: <state dir>/faults.yaml

``open_mock`` puts them together. ``docs/mock-machines.md`` is the page for people.
"""

from driver.nvml.mock.catalogue import read_machine_names, read_mock_machine
from driver.nvml.mock.machine import MockMachine, open_mock, reboot, reload_driver, reset_gpu, write_faults

__all__ = [
    "MockMachine",
    "open_mock",
    "read_machine_names",
    "read_mock_machine",
    "reboot",
    "reload_driver",
    "reset_gpu",
    "write_faults",
]
