"""What the figures were measured on, as a line among them."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import grpc

from hack.bench.figure import Figure


def describe_run(load_before: float) -> Figure:
    """How busy the machine was at the beginning and at the end of a run, and what it is."""
    detail = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "cpu_model": _read_cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "grpc": grpc.__version__,
    }
    return Figure(name="load_average", unit="processes", values=[load_before, os.getloadavg()[0]], detail=detail)


def _read_cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
