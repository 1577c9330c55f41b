"""What Prometheus would see of both halves: pods that hold GPUs, XIDs, decisions."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from driver.nvml.mock.faults import Fault, Load, XidEvent
from driver.nvml.mock.machine import write_faults
from hack.devcluster.processes import wait_until
from tests.e2e import objects
from tests.e2e.load import find_leak, read_footprint
from tests.e2e.play import FENCED, play
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_WITHIN_S = 60.0
_SCRAPES = 100
_MOST_GROWTH = 1.5
"""Eight pages in the making at a time, and no more."""
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? ([^ ]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A sample of a page."""

    name: str
    labels: Mapping[str, str]
    value: float


def scrape(port: int) -> list[Line]:
    """The page as it is now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    found = (_LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    return [Line(name=each[1], labels=dict(_LABEL.findall(each[2] or "")), value=float(each[3])) for each in found if each]


def find(port: int, name: str, **labels: str) -> list[Line]:
    """The samples of this name that have these labels."""
    return [each for each in scrape(port) if each.name == name and labels.items() <= each.labels.items()]


def _sum(port: int, name: str, **labels: str) -> float:
    return sum(each.value for each in find(port, name, **labels))


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _wait(is_so: Callable[[], bool], what: str) -> None:
    expect(wait_until(is_so, timeout_s=_WITHIN_S), f"not within {_WITHIN_S:g} s: {what}")


@SUITE.add("metrics: a pod is named while it holds a GPU, and not after; an XID is counted; a GPU's load is seen")
def run_node_metrics(stage: Stage) -> str:
    """Two pods with a claim each, one shared claim of two pods; an application's XID; the page after they are gone."""
    port = _find_port()
    plugin = stage.start_plugin("dgx-h100", options=("--metrics-address", f"127.0.0.1:{port}"))
    _wait(lambda: _sum(port, "gpu_dra_node_registered") == 1, "registered")
    _wait(lambda: _sum(port, "gpu_dra_node_publish_state", state="published") == 1, "published")
    stage.run_pod("alone", objects.claim_spec([objects.exactly()]))
    stage.api.create(objects.claim("shared", objects.claim_spec([objects.exactly()])))
    for name in ("first", "second"):
        stage.api.create(objects.pod(name, named="shared"))
        stage.wait_running(name)
    _expect_holders(port, ["alone", "first"], among=["alone", "first", "second"])
    expect(_sum(port, "gpu_dra_node_prepared_devices", type="gpu") == 2, "two devices are prepared")
    gpu = find(port, "gpu_dra_gpu_holder", pod="alone")[0].labels["gpu"]
    index = [each.labels["gpu"] for each in find(port, "gpu_dra_gpu_info")].index(gpu)
    _play(stage, [Load(gpu=index, percent=87, memory_percent=40, celsius=70, watts=650)])
    _wait(lambda: _sum(port, "gpu_dra_gpu_utilization_ratio", gpu=gpu) == 0.87, "the load")
    xids = [XidEvent(gpu=index, xid=13, id=f"{number}") for number in range(5)]
    _play(stage, xids)
    _wait(lambda: _sum(port, "gpu_dra_gpu_xids_total", gpu=gpu, xid="13") == 5, "five XIDs 13")
    expect(not find(port, "gpu_dra_gpu_trouble"), "an application's own XID is no trouble of the GPU")
    stage.delete_pods("alone", "first", "second")
    _wait(lambda: not find(port, "gpu_dra_gpu_holder"), "nobody holds anything")
    prepared = _sum(port, "gpu_dra_node_claim_seconds_count", operation="prepare", outcome="ok")
    unprepared = _sum(port, "gpu_dra_node_claim_seconds_count", operation="unprepare", outcome="ok")
    expect(prepared >= 2 and unprepared >= 2, f"{prepared} prepares, {unprepared} unprepares")
    count = len(scrape(port))
    expect(plugin.is_running(), "the plugin ended")
    return f"{prepared:g} prepares, {unprepared:g} unprepares, 5 XIDs, {count} lines when all is quiet"


def _play(stage: Stage, faults: Sequence[Fault]) -> None:
    write_faults(stage.folders.mock_state, list(faults))


def _expect_holders(port: int, at_least: Sequence[str], *, among: Sequence[str]) -> None:
    """The second pod of a named claim is learned of within a minute or two of scrapes, the others at once."""
    pods = {each.labels["pod"] for each in find(port, "gpu_dra_gpu_holder")}
    expect(set(at_least) <= pods <= set(among), f"pods {pods}")
    namespaces = {each.labels["namespace"] for each in find(port, "gpu_dra_gpu_holder")}
    expect(namespaces == {objects.NAMESPACE}, f"namespaces {namespaces}")


@SUITE.add("metrics: a restarted plugin learns the pods of claims from before, without their being prepared again")
def run_restart_metrics(stage: Stage) -> str:
    """The names come from the API server, behind a scrape."""
    port = _find_port()
    plugin = stage.start_plugin("dgx-h100", options=("--metrics-address", f"127.0.0.1:{port}"))
    stage.run_pod("stays", objects.claim_spec([objects.exactly()]))
    plugin.kill()
    plugin.start()
    plugin.wait_registered()
    _wait(lambda: bool(find(port, "gpu_dra_gpu_holder", pod="stays")), "the pod's name")
    prepares = _sum(port, "gpu_dra_node_claim_seconds_count", operation="prepare")
    return f"known after a restart, with {prepares:g} prepares"


@SUITE.add("metrics: the controller counts what it places and what waits, and why")
def run_controller_metrics(stage: Stage) -> str:
    """A pod that is placed, one that asks for more than there is, and the fleet's figures."""
    with play(stage, {"node-1": "dgx-a100"}) as on:
        port = on.start_controller().port
        four = objects.claim_spec([objects.exactly(count=4, selector=FENCED)])
        on.create_pod("placed", {"gpus": four})
        on.wait_allocated("placed")
        on.create_pod("waits", {"gpus": objects.claim_spec([objects.exactly(count=6, selector=FENCED)])})
        _wait(lambda: _sum(port, "gpu_dra_waiting_claims", reason="full") == 1, "one claim waits since all is full")
        expect(_sum(port, "gpu_dra_waits_total", reason="full") >= 1, "it was told so")
        _wait(lambda: _sum(port, "gpu_dra_gpus", state="allocated") == 4, "four GPUs are allocated")
        expect(_sum(port, "gpu_dra_leader") == 1, "it leads")
        placed = _sum(port, "gpu_dra_decisions_total", outcome="placed")
        expect(placed >= 1, "a decision to place")
        expect(_sum(port, "gpu_dra_write_seconds_count", write="allocation") >= 1, "a write of an allocation")
        oldest_s = _sum(port, "gpu_dra_oldest_waiting_seconds")
    return f"{placed:g} placed, one waits for {oldest_s:.1f} s since all is full"


@SUITE.add("metrics: a hundred scrapes of both halves at once, again and again, while pods come and go", needs_minor=36)
def run_scrapes(stage: Stage) -> str:
    """All are answered, no pod waits long, and neither half is larger for it."""
    port = _find_port()
    options = ("--allocation", "controller", "--metrics-address", f"127.0.0.1:{port}")
    plugin = stage.start_plugin("dgx-h100", options=options)
    with play(stage) as on, ThreadPoolExecutor(2 * _SCRAPES) as scrapers:
        controller = on.start_controller()
        quiet_s = _run_pods(stage, "quiet")
        for each in (port, controller.port):
            scrape(each)
        before = {each.title: read_footprint(each.pid) for each in (plugin, controller)}
        is_over = threading.Event()
        loops = [scrapers.submit(_scrape_until, is_over, each) for each in (port, controller.port) for _ in range(_SCRAPES)]
        busy_s = _run_pods(stage, "busy")
        is_over.set()
        count = sum(each.result() for each in loops)
        after = {each.title: read_footprint(each.pid) for each in (plugin, controller)}
        grown = {name: after[name].rss_bytes / before[name].rss_bytes for name in before}
        expect(not any(line.value for line in find(port, "gpu_dra_node_claim_failures_total")), "a prepare failed")
        expect(all(ratio < _MOST_GROWTH for ratio in grown.values()), f"memory grew to {grown}")
        leaks = [find_leak(before[name], after[name]) for name in before]
        expect(not any(leaks), f"left behind: {leaks}")
    sizes = ", ".join(f"{name} {ratio:.2f}" for name, ratio in grown.items())
    return f"{count} scrapes answered; pods take {busy_s / quiet_s:.1f} times as long; memory {sizes} of before"


def _scrape_until(is_over: threading.Event, port: int) -> int:
    """How many pages; one that is not answered raises."""
    count = 0
    while not is_over.is_set():
        expect(len(scrape(port)) > 10, "a page without figures")
        count += 1
    return count


def _run_pods(stage: Stage, name: str) -> float:
    """Some pods one after the other; seconds for all."""
    began = time.monotonic()
    for number in range(3):
        stage.run_pod(f"{name}-{number}", objects.claim_spec([objects.exactly(selector=FENCED)]))
        stage.delete_pods(f"{name}-{number}", grace_s=1)
    return time.monotonic() - began
