"""The page of a running node half."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from driver.errors import SocketUnusable
from driver.nvml.mock.faults import CallHangs, Load
from tests.component.node.one_node import OneNode
from tests.fakes.kubelet import CallFailed


def scrape(port: int, path: str = "/metrics") -> dict[str, float]:
    """Each line's value by its name and labels."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200
        lines = response.read().decode().splitlines()
    finally:
        connection.close()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def holders(page: dict[str, float]) -> list[str]:
    return sorted(name for name in page if name.startswith("gpu_dra_gpu_holder{"))


def test_a_pod_is_named_while_it_holds_a_gpu_and_not_after(node: OneNode) -> None:
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    name = sorted(node.devices())[0]
    claim = node.allocate("train", [name])
    reserved = [{"resource": "pods", "name": "train-0", "uid": "b7f6b7a4-8d7c-4b43-8a57-a7e1a5f3c001"}]
    node.api.edit(
        "resourceclaims",
        "train",
        lambda now: now | {"status": now["status"] | {"reservedFor": reserved}},
        namespace="team",
        is_status=True,
    )
    node.prepare(claim)
    page = scrape(plugin.metrics_port)
    assert holders(page) == [
        f'gpu_dra_gpu_holder{{claim="train",device="{name}",gpu="{name}",namespace="team",pod="train-0",type="gpu"}}'
    ]
    assert page['gpu_dra_node_prepared_devices{type="gpu"}'] == 1
    assert page['gpu_dra_node_claim_seconds_count{operation="prepare",outcome="ok"}'] == 1
    assert page['gpu_dra_node_step_seconds_count{operation="prepare",step="cdi-file"}'] == 1
    node.unprepare(claim)
    page = scrape(plugin.metrics_port)
    assert holders(page) == []
    assert page['gpu_dra_node_claim_seconds_count{operation="unprepare",outcome="ok"}'] == 1
    assert page['gpu_dra_node_claims_in_flight{operation="prepare"}'] == 0


def test_the_node_as_a_scraper_sees_it(node: OneNode) -> None:
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    node.wait(lambda: scrape(plugin.metrics_port)['gpu_dra_node_publish_state{state="published"}'] == 1)
    page = scrape(plugin.metrics_port)
    assert page["gpu_dra_node_registered"] == 1
    assert page["gpu_dra_node_machine_read"] == 1
    assert page["gpu_dra_node_slices"] == len(node.api.objects("resourceslices"))
    assert page["gpu_dra_node_slice_writes_total"] >= 1
    assert page["gpu_dra_node_publish_success_timestamp_seconds"] > 1_700_000_000
    assert page['gpu_dra_node_allocatable_devices{type="gpu"}'] == 8
    (island,) = [value for name, value in page.items() if name.startswith("gpu_dra_node_island_gpus{")]
    assert island == 8
    assert len([name for name in page if name.startswith("gpu_dra_gpu_power_watts{")]) == 8


def test_a_device_plugin_beside_the_driver_is_a_figure(node: OneNode) -> None:
    """B74: two that give out the same GPUs; for as long as it is there."""
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    node.api.edit("nodes", "node-a", lambda now: now | _offers("8"), is_status=True)
    node.wait(lambda: scrape(plugin.metrics_port)["gpu_dra_node_device_plugin"] == 1)
    node.api.edit("nodes", "node-a", lambda now: now | _offers("0"), is_status=True)
    node.wait(lambda: scrape(plugin.metrics_port)["gpu_dra_node_device_plugin"] == 0)


def _offers(count: str) -> dict[str, object]:
    return {"status": {"allocatable": {"nvidia.com/gpu": count}}}


def test_a_claim_that_fails_is_counted_with_its_reason(node: OneNode) -> None:
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    with pytest.raises(CallFailed):
        node.prepare(node.allocate("unknown", ["gpu-0000-ff-00-0"]))
    page = scrape(plugin.metrics_port)
    assert page['gpu_dra_node_claim_failures_total{operation="prepare",reason="unknown_device"}'] == 1


def test_figures_follow_the_hardware(node: OneNode) -> None:
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    node.play(Load(gpu=0, percent=93, celsius=66, watts=610))
    node.wait(lambda: 0.93 in scrape(plugin.metrics_port).values())


def test_a_hung_gpu_holds_up_neither_a_scrape_nor_a_prepare(node: OneNode) -> None:
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    try:
        node.play(CallHangs(call="nvmlDeviceGetTemperature", gpu=2))
        for _ in range(3):
            assert len([name for name in scrape(plugin.metrics_port) if name.startswith("gpu_dra_gpu_info{")]) == 8
        claim = node.allocate("beside", [sorted(node.devices())[0]])
        assert node.prepare(claim)
    finally:
        node.play()


def test_a_hundred_scrapes_at_once_are_all_answered_and_fail_no_prepare(node: OneNode) -> None:
    """Eight at a time; their threads are gone afterwards, and the prepares meanwhile take seconds at the worst."""
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    name = sorted(node.devices())[0]
    at_rest = threading.active_count()
    with ThreadPoolExecutor(100) as scrapers:
        pages = [scrapers.submit(scrape, plugin.metrics_port) for _ in range(100)]
        for number in range(10):
            began_s = time.monotonic()
            claim = node.allocate(f"claim-{number}", [name])
            assert node.prepare(claim)
            node.unprepare(claim)
            assert time.monotonic() - began_s < 10
        assert all(page.result()["gpu_dra_node_registered"] == 1 for page in pages)
    node.wait(lambda: threading.active_count() <= at_rest + 4)
    page = scrape(plugin.metrics_port)
    assert page['gpu_dra_node_claim_seconds_count{operation="prepare",outcome="ok"}'] == 10
    assert not [line for line, value in page.items() if line.startswith("gpu_dra_node_claim_failures_total") and value]


def test_nonsense_on_the_port_harms_nobody(node: OneNode) -> None:
    plugin = node.start(metrics_address="127.0.0.1:0")
    node.wait_published(8)
    for nonsense in (b"\x00\xff\x16\x03\x01", b"GET /metrics HTTP/9.9\r\n\r\n", b"GET " + b"/" * 70_000 + b"\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", plugin.metrics_port), timeout=30) as connection:
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert scrape(plugin.metrics_port)["gpu_dra_node_registered"] == 1


def test_without_an_address_nothing_is_served(node: OneNode) -> None:
    plugin = node.start()
    node.wait_published(8)
    assert plugin.metrics_port == 0


def test_an_address_that_is_taken_ends_the_start_with_a_reason(node: OneNode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SocketUnusable, match="address in use"):
            node.start(metrics_address=address)
