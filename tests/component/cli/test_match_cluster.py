"""``gpu-dra match`` against a cluster: all ResourceSlices of any driver, read and never written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.component.cli.program import Ended, Program
from tests.fakes.kube_api import FakeKubeApi, Fault

_GPU, _NIC = "gpu.nvidia.com", "nic.example.com"
_ASKED = "gpu-dra: error: GET /apis/resource.k8s.io/v1/resourceslices?limit=500: "
_LOG_IN = "does not know these credentials (any more): log in again, or name another kubeconfig or context"
_NO_DRA = "does not serve resource.k8s.io/v1: DRA is in Kubernetes 1.34 and later: is it such a cluster? (kubectl version)"
_H100 = 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")'


def _slice(node: str, devices: list[dict[str, Any]], *, driver: str = _GPU, name: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _gpu(index: int, product: str = "NVIDIA H100 80GB HBM3") -> dict[str, Any]:
    attributes = {"productName": {"string": product}, "index": {"int": index}, "driverVersion": {"version": "560.35.3"}}
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _nic(index: int) -> dict[str, Any]:
    return {"name": f"nic-{index}", "attributes": {"speed": {"int": 400}}}


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    """Two nodes with GPUs of two kinds, and one with a network card of another driver."""
    with FakeKubeApi() as api:
        api.create("resourceslices", _slice("node-a", [_gpu(0), _gpu(1)]))
        api.create("resourceslices", _slice("node-b", [_gpu(0, "NVIDIA A100")]))
        api.create("resourceslices", _slice("node-b", [_nic(0)], driver=_NIC))
        yield api


@pytest.fixture
def kubeconfig(api: FakeKubeApi, tmp_path: Path) -> str:
    return str(api.write_kubeconfig(tmp_path / "kubeconfig"))


def _results(ended: Ended) -> dict[tuple[str, str, str], Any]:
    found = json.loads(ended.out)
    return {(each["driver"], each["pool"], each["device"]): each["result"] for each in found["devices"]}


def test_every_device_of_every_driver_is_asked(program: Program, kubeconfig: str) -> None:
    ended = program("match", f'device.driver == "{_GPU}" && {_H100}', "--kubeconfig", kubeconfig, "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert _results(ended) == {
        (_GPU, "node-a", "gpu-0"): True,
        (_GPU, "node-a", "gpu-1"): True,
        (_GPU, "node-b", "gpu-0"): False,
        (_NIC, "node-b", "nic-0"): False,
    }


def test_the_whole_answer_for_programs(program: Program, kubeconfig: str) -> None:
    source = 'device.driver == "nic.example.com" && device.attributes["nic.example.com"].speed > 400'
    ended = program("match", source, "--kubeconfig", kubeconfig, "-o", "json")
    found = json.loads(ended.out)
    assert {name: found[name] for name in ("format", "selector", "maxCost")} == {
        "format": "gpu-dra.io/match/v1",
        "selector": source,
        "maxCost": 9,
    }
    assert [each for each in found["devices"] if each["driver"] == _NIC] == [
        {
            "driver": _NIC,
            "pool": "node-b",
            "device": "nic-0",
            "result": False,
            "message": "",
            "terms": [
                {
                    "term": 'device.attributes["nic.example.com"].speed > 400',
                    "result": False,
                    "message": "",
                    "hint": "",
                }
            ],
        }
    ]


def test_the_answer_for_people_has_pools_and_what_says_no(program: Program, kubeconfig: str) -> None:
    ended = program("match", f'device.driver == "{_GPU}" && {_H100}', "--kubeconfig", kubeconfig)
    lines = ended.out.splitlines()
    assert lines[0] == "2 of 4 devices match"
    rows = [line.split()[:3] for line in lines if line.startswith("node-")]
    assert rows == [
        ["node-a", "gpu-0", "yes"],
        ["node-a", "gpu-1", "yes"],
        ["node-b", "gpu-0", "no"],
        ["node-b", "nic-0", "no"],
    ]


def test_a_selector_that_forgets_other_drivers_fails_and_says_so(program: Program, kubeconfig: str) -> None:
    ended = program("match", _H100, "--kubeconfig", kubeconfig)
    assert ended.code == 1
    assert ended.out.splitlines()[0] == "2 of 4 devices match; the selector fails on 1: kube-scheduler gives up the pod"


def test_the_cluster_is_only_read_once_and_never_written(program: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.forget_requests()
    program("match", "true", "--kubeconfig", kubeconfig)
    assert api.history == [("list", "resourceslices")]


def test_a_selector_that_does_not_compile_does_not_ask_the_cluster(program: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.forget_requests()
    ended = program("match", "device.nothing", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out, api.history) == (2, "", [])
    assert ended.err.splitlines() == [
        "gpu-dra: error: the selector does not compile; Kubernetes refuses it:",
        "1:7: kubernetes.DRADevice has no field nothing",
        " | device.nothing",
        " | ......^",
        'an attribute is device.attributes["DRIVER"].NAME, an amount device.capacity["DRIVER"].NAME',
    ]


def test_slices_beyond_one_page_are_all_read(program: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    for number in range(600):
        api.create("resourceslices", _slice(f"many-{number}", [_gpu(0)]))
    ended = program("match", f'device.driver == "{_GPU}"', "--kubeconfig", kubeconfig, "-o", "json")
    assert len(_results(ended)) == 604
    assert api.count("list", resource="resourceslices") > 1


def test_a_cluster_without_slices_is_answered(program: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.delete_all("resourceslices")
    ended = program("match", "true", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out.splitlines()[0]) == (0, "there are no devices to match")


def test_the_kubeconfig_comes_from_the_environment_too(
    program: Program, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_DRA_KUBECONFIG", kubeconfig)
    assert program("match", "true").code == 0


def test_a_token_of_the_kubeconfig_is_sent(program: Program, api: FakeKubeApi, tmp_path: Path) -> None:
    api.tokens.add("secret")
    refused = program("match", "true", "--kubeconfig", str(api.write_kubeconfig(tmp_path / "wrong", token="other")))
    taken = program("match", "true", "--kubeconfig", str(api.write_kubeconfig(tmp_path / "right", token="secret")))
    assert (refused.code, taken.code) == (1, 0)
    assert refused.err == f"{_ASKED}401 Unauthorized: Unauthorized; {api.url} {_LOG_IN}\n"
    assert "secret" not in taken.out + taken.err + refused.err


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(
            Fault(status=403, reason="Forbidden", message="no list for you", times=9),
            "403 Forbidden: no list for you",
            id="not allowed",
        ),
        pytest.param(
            Fault(status=404, reason="NotFound", message="no such resource", times=9),
            f"404 NotFound: no such resource; SERVER {_NO_DRA}",
            id="a cluster without DRA",
        ),
        pytest.param(
            Fault(kind="raw", body=b"<html>", times=9),
            "500 <html>; these are no words of Kubernetes: is SERVER an API server, or does a proxy answer for it?",
            id="not Kubernetes",
        ),
    ],
)
def test_a_cluster_that_refuses_is_code_1_and_its_words(
    fault: Fault, said: str, program: Program, api: FakeKubeApi, kubeconfig: str
) -> None:
    api.fail(fault)
    ended = program("match", "true", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"{_ASKED}{said}\n".replace("SERVER", api.url)


def test_a_cluster_that_is_away_is_code_1(program: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.stop()
    ended = program("match", "true", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"{_ASKED}no answer from the API server at {api.url}: connection refused")
    assert len(ended.err.splitlines()) == 1


def test_a_kubeconfig_that_is_not_there_names_the_ways_without_a_cluster(program: Program, tmp_path: Path) -> None:
    ended = program("match", "true", "--kubeconfig", str(tmp_path / "none"))
    assert (ended.code, ended.out) == (2, "")
    assert str(tmp_path / "none") in ended.err
    assert ended.err.rstrip().endswith("; without a cluster: --nvml mock:dgx-h100, or --slices FILE")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param('device.capacity["gpu.nvidia.com"].memory == quantity("81920Mi")', True, id="capacity"),
        pytest.param('device.attributes["gpu.nvidia.com"].driverVersion.isGreaterThan(semver("550.0.0"))', True, id="version"),
        pytest.param('device.attributes["gpu.nvidia.com"].index == 1', False, id="integer"),
        pytest.param('has(device.attributes["gpu.nvidia.com"].nothing)', False, id="no such attribute"),
        pytest.param("device.allowMultipleAllocations", False, id="one allocation"),
    ],
)
def test_values_are_as_the_server_stores_them(source: str, expected: bool, program: Program, kubeconfig: str) -> None:
    ended = program("match", f'device.driver == "{_GPU}" && {source}', "--kubeconfig", kubeconfig, "-o", "json")
    assert _results(ended)[_GPU, "node-a", "gpu-0"] is expected


def test_a_claim_is_tried_with_the_classes_of_the_cluster(
    program: Program, api: FakeKubeApi, kubeconfig: str, tmp_path: Path
) -> None:
    selectors = [{"cel": {"expression": f'device.driver == "{_GPU}" && {_H100}'}}]
    api.create("deviceclasses", {"metadata": {"name": "h100"}, "spec": {"selectors": selectors}})
    claim = tmp_path / "claim.json"
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "h100"}}]
    claim.write_text(
        json.dumps({"kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": {"devices": {"requests": requests}}})
    )
    ended = program("match", "--claim", str(claim), "--kubeconfig", kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == "claim a, request gpu: 1 of h100; 2 of 4 devices match"
