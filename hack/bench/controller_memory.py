"""What the controller takes in a large cluster: ``python -m hack.bench.controller_memory [NODES ...]``.

The leader's own decision thread and watches read a stand-in for the API server in another process. One JSON line a size of
cluster: resident memory once everything is listed and the first claims are placed, its peak until then, and how long that took;
with what a node of 8 GPUs, 2 pods and 2 claims costs, from the smallest size on.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from driver.cli.simulation.fleets import DRIVER
from driver.controller.controller import Controller
from driver.controller.election.lease import ElectionSettings
from driver.controller.intake import Intake
from driver.controller.loop import Loop
from driver.controller.metrics import ControllerMetrics
from driver.controller.settings import ControllerSettings
from driver.controller.writing.writer import Job
from driver.kube.client import KubeClient
from driver.kube.credentials import Credentials, Endpoint, FixedHeader
from driver.kube.events import EventRecorder, Source
from hack.bench.processes import ROOT, python

TARGET_MB = 500.0
_GIVE_UP_S = 900.0
_SETTLE_S = 3.0


def measure(nodes: int) -> dict[str, float]:
    """A server and a controller of their own for one size."""
    server = subprocess.Popen(python("hack.bench.listing_api", str(nodes)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().strip() if server.stdout is not None else ""
        command = python("hack.bench.controller_memory", "--against", port)
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=_GIVE_UP_S, check=True)
    finally:
        server.terminate()
        server.wait()
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def lead(port: str) -> dict[str, float]:
    """List, decide, and say what it took: in the process that is measured."""
    credentials = Credentials(
        endpoint=Endpoint(server=f"http://127.0.0.1:{port}"), authorization=FixedHeader(), source="benchmark"
    )
    election = ElectionSettings(namespace="default", name="benchmark", identity="benchmark")
    settings = ControllerSettings(driver_name=DRIVER, election=election)
    Controller(settings, credentials)  # what stands by beside the leader's part
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    recorder = EventRecorder(KubeClient(credentials), Source(controller="benchmark", instance="benchmark"))
    begun = time.monotonic()
    loop = Loop(settings, jobs.put, recorder, ControllerMetrics())
    threading.Thread(target=loop.run, daemon=True).start()
    Intake(settings.driver_name, KubeClient(credentials), loop.put, traceback.print_exception).start()
    jobs.get(timeout=_GIVE_UP_S)
    took_s = time.monotonic() - begun
    time.sleep(_SETTLE_S)
    return {"resident_mb": read_mb("VmRSS"), "peak_mb": read_mb("VmHWM"), "first_placed_s": round(took_s, 1)}


def read_mb(field: str) -> float:
    """A field of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024, 1)


def build_lines(sizes: Sequence[int], figures: Sequence[dict[str, float]]) -> list[dict[str, object]]:
    """One line a size, with what each node beyond the smallest size costs."""
    lines: list[dict[str, object]] = []
    for nodes, each in zip(sizes, figures, strict=True):
        line: dict[str, object] = {"figure": "controller-memory", "nodes": nodes, "devices": nodes * 8, **each}
        if nodes > sizes[0]:
            grown = each["resident_mb"] - figures[0]["resident_mb"]
            line["kb_a_node"] = round(grown * 1024 / (nodes - sizes[0]), 1)
        lines.append(line | {"target": {"peak_mb": TARGET_MB}, "met": each["peak_mb"] <= TARGET_MB})
    return lines


def main() -> None:
    """Measure each size, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--against", metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.against is not None:
        sys.stdout.write(json.dumps(lead(args.against)))
        return
    figures = [measure(nodes) for nodes in args.nodes]
    for line in build_lines(args.nodes, figures):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
