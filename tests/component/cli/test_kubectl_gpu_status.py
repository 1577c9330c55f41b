"""``kubectl gpu status`` and ``topology`` against a cluster: what is read, what is said without rights, bad inputs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.cli.program import Program
from tests.component.cli.test_kubectl_gpu import TEAM, add_job, add_node, allocate
from tests.component.cli.test_kubectl_gpu import gpu as gpu  # noqa: PLC0414  (a fixture)
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.unit.controller.world import CLASSES

READ = {"deviceclasses", "devicetaintrules", "nodes", "resourceslices", "resourceclaims", "pods"}


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    """Two nodes; a pod has two GPUs of the first, another waits."""
    with FakeKubeApi() as api:
        for name, spec in CLASSES.items():
            api.create("deviceclasses", {"metadata": {"name": name}, "spec": spec})
        add_node(api, "node-a")
        add_node(api, "node-b", "scheduler")
        add_job(api, "train", count=2, nodeName="node-a")
        allocate(api, "train", "node-a", 0, 1)
        add_job(api, "big", count=9)
        yield api


@pytest.fixture
def kubeconfig(api: FakeKubeApi, tmp_path: Path) -> str:
    return str(api.write_kubeconfig(tmp_path / "kubeconfig"))


def test_the_fleet_is_read_once_and_never_written(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.history.clear()
    ended = gpu("status", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    assert sorted(api.history) == sorted(("list", each) for each in READ)
    assert ended.out.splitlines()[0].rstrip() == "16 GPUs on 2 nodes: 2 allocated, 14 free"
    assert max(len(line) for line in ended.out.splitlines()) <= 80


def test_status_for_programs(gpu: Program, kubeconfig: str) -> None:
    found = json.loads(gpu("status", "node-a", "--kubeconfig", kubeconfig, "-o", "json").out)
    assert found["subject"] == {"kind": "node", "namespace": "", "name": "node-a"}
    assert [each["state"] for each in found["nodes"][0]["gpus"]] == ["allocated"] * 2 + ["free"] * 6


def test_a_pod_in_a_namespace(gpu: Program, kubeconfig: str) -> None:
    shown = gpu("status", "pod/train", "-n", TEAM, "--kubeconfig", kubeconfig).out
    assert "GPU 0, gpu-0000-27-00-0: no trouble is known" in shown


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        ("resourceclaims", "who has which GPU, and so what is free, is not known"),
        ("pods", "which pods wait is not known"),
        ("nodes", "whether nodes are ready or cordoned is not known"),
        ("deviceclasses", "which claims are for GPUs is not known"),
        ("devicetaintrules", "taints of rules are not seen"),
    ],
)
def test_a_right_that_is_missing_is_named_with_what_follows(
    gpu: Program, api: FakeKubeApi, kubeconfig: str, resource: str, said: str
) -> None:
    api.fail(Fault(verb="list", resource=resource, status=403, reason="Forbidden", message="not yours", times=9))
    ended = gpu("status", "--kubeconfig", kubeconfig)
    assert ended.code == 0
    words = " ".join(ended.out.split())
    assert f"you may not list {resource}" in words
    assert said in words


def test_without_slices_nothing_can_be_said(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.fail(Fault(verb="list", resource="resourceslices", status=403, reason="Forbidden", message="not yours", times=9))
    ended = gpu("status", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert "which you must be allowed to list: kubectl auth can-i list resourceslices.resource.k8s.io" in ended.err


def test_pictures_are_written(gpu: Program, kubeconfig: str, tmp_path: Path) -> None:
    for name in ("node-a", ""):
        file = tmp_path / f"{name}.svg"
        ended = gpu("topology", *([name] if name else []), "--picture", str(file), "--kubeconfig", kubeconfig)
        assert (ended.code, ended.err) == (0, "")
        assert ET.fromstring(file.read_text()).tag.endswith("svg")
    assert ET.fromstring(gpu("topology", "--picture", "-", "--kubeconfig", kubeconfig).out).tag.endswith("svg")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (
            "status nowhere",
            1,
            "there is no node, pod or claim nowhere in namespace default; kubectl gpu status",
        ),
        ("status node-aa", 1, "there is no node, pod or claim node-aa in namespace default; did you mean node-a?"),
        (
            "status train",
            1,
            "claim train in namespace default; there is one in namespace team: -n team",
        ),
        ("status job/x", 1, "'job' is no kind that has devices: node/x, pod/x or claim/x"),
        ("topology nowhere", 1, "there is no node with devices nowhere; kubectl gpu status shows all nodes"),
        (
            "topology node-a --picture /none/x.svg",
            2,
            "cannot write the picture to /none/x.svg: No such file or directory",
        ),
    ],
)
def test_wrong_names(gpu: Program, kubeconfig: str, line: str, code: int, said: str) -> None:
    ended = gpu(*line.split(), "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("status -o yaml", "invalid choice: 'yaml'"),
        ("status a b", "'b' is no argument of this command"),
        ("status --al-nodes", "did you mean --all-nodes?"),
        ("topology --pictur x", "did you mean --picture?"),
        ("topology --picture", "expected one argument"),
        ("statu", "did you mean status?"),
    ],
)
def test_wrong_command_lines(gpu: Program, line: str, said: str) -> None:
    ended = gpu(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_machine_and_slices_at_once_are_refused_by_match(program: Program) -> None:
    ended = program("match", "true", "--nvml", "mock:t4", "--slices", "x.yaml")
    assert (ended.code, ended.err) == (
        2,
        "gpu-dra: error: --nvml and --slices both say where the devices come from; leave one of them away\n",
    )
