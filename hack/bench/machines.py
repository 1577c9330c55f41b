"""The mock machines of a run. Pure but for the writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

MANY = 64
"""As many GPUs as a mock machine may have: 56 callers and what is held meanwhile."""


def build_machine(gpus: int) -> dict[str, Any]:
    """A machine file: L40S cards, eight below each PCIe root, half of the roots on each socket."""
    places = range(gpus)
    return {
        "name": f"bench-{gpus}",
        "description": f"{gpus} GPUs without NVLink, for the benchmark",
        "driver": "550.163.01",
        "cuda": "12.4",
        "gpus": [
            {
                "board": "l40s",
                "pci": [f"{0x10 + place:02x}:00.0" for place in places],
                "numa": [place * 2 // gpus for place in places],
                "root": [f"pci0000:{place // 8:02x}" for place in places],
            }
        ],
    }


def write_machine(folder: Path, gpus: int) -> Path:
    """The machine file's path."""
    path = folder / f"bench-{gpus}.yaml"
    path.write_bytes(msgspec.json.encode(build_machine(gpus)))  # JSON is YAML
    return path
