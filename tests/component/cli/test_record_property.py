"""Any machine that a file can say is the same again when it is recorded."""

from __future__ import annotations

import dataclasses
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from driver.cli.record import encode_machine
from driver.cli.recorded_boards import Catalogue, RecordedGpu
from driver.cli.recording import Recording, build_recorded
from driver.host.pci import SysfsPci
from driver.nvml.library import NvmlLibrary
from driver.nvml.mock import open_mock
from driver.nvml.mock.catalogue import read_boards, read_mig_tables
from driver.nvml.reader import read_machine
from driver.nvml.readings import MachineReading
from driver.topology.build import build_topology
from driver.topology.model import Topology

_PORTS = 6
_BOARD = "v100-sxm2-16gb"


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    """Up to six GPUs with any links that their ports allow, any of them down at either end, on any roots and NUMA nodes."""
    count = draw(st.integers(1, 6))
    free = [_PORTS] * count
    pairs = {}
    for a, b in draw(st.permutations(list(combinations(range(count), 2)))):
        links = draw(st.integers(0, min(2, free[a], free[b])))
        if links:
            pairs[f"{a}-{b}"] = links
            free[a], free[b] = free[a] - links, free[b] - links
    numbers = st.integers(0, count - 1)
    down = draw(st.lists(st.fixed_dictionaries({"gpu": numbers, "links": st.lists(st.integers(0, 5), max_size=3)}), max_size=3))
    document: dict[str, Any] = {
        "name": "any",
        "driver": "535.183.01",
        "cuda": "12.2",
        "gpus": [
            {
                "board": _BOARD,
                "pci": [f"{0x10 + 8 * number:02x}:00.0" for number in range(count)],
                "numa": draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count)),
                "root": draw(st.lists(st.sampled_from(["pci0000:00", "pci0000:80", None]), min_size=count, max_size=count)),
                "minors": draw(st.permutations(range(count))),
            }
        ],
        "faults": [{"kind": "link-down", **each} for each in down],
    }
    if pairs:
        document["nvlink"] = {"pairs": pairs}
    levels = {pair: draw(st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", None])) for pair in pairs}
    for level in {level for level in levels.values() if level}:
        document.setdefault("levels", {})[level] = [pair for pair, each in levels.items() if each == level]
    return document


def _read(file: Path, state_dir: Path) -> tuple[MachineReading, tuple[RecordedGpu, ...]]:
    mock = open_mock(str(file), state_dir)
    mock.library.init()
    try:
        reading = read_machine(mock.library, SysfsPci(mock.roots.sys))
        return reading, tuple(_recorded(mock.library, reading))
    finally:
        mock.library.shutdown()


def _recorded(library: NvmlLibrary, reading: MachineReading) -> list[RecordedGpu]:
    ids = [library.device_pci_info(library.device_handle_by_uuid(gpu.uuid)).device_id >> 16 for gpu in reading.gpus]
    return [
        RecordedGpu(reading=gpu, device_id=device_id, mig_table=(), mig_instances=())
        for gpu, device_id in zip(reading.gpus, ids, strict=True)
    ]


def _without_ports(topology: Topology) -> Topology:
    """The same but for which of its ports each link takes."""
    gpus = (dataclasses.replace(gpu, reading=dataclasses.replace(gpu.reading, nvlinks=())) for gpu in topology.gpus)
    return dataclasses.replace(topology, gpus=tuple(gpus))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.explicit, Phase.generate])
@given(_documents())
def test_a_recording_of_any_machine_has_the_same_topology(document: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before_file, after_file = Path(folder) / "before.yaml", Path(folder) / "after.yaml"
        before_file.write_text(yaml.safe_dump(document))
        reading, gpus = _read(before_file, Path(folder) / "a")
        catalogue = Catalogue(boards=read_boards(), mig_tables=read_mig_tables())
        recording = Recording(reading=reading, gpus=gpus, virtualization="none")
        recorded = build_recorded(recording, catalogue, name="any", with_identifiers=True)
        after_file.write_text(encode_machine(recorded.document))
        again, _ = _read(after_file, Path(folder) / "b")
        before, after = build_topology(reading), build_topology(again)
        if recorded.notes:
            assert [note[:34] for note in recorded.notes] == ["which NVLink ports are down is not"]
            before, after = _without_ports(before), _without_ports(after)
        assert after == before
