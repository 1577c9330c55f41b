"""``kubectl gpu`` against a cluster: read once, never written, and clear words for what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from driver.cli.gpu.main import PROGRAM, parse
from driver.controller.objects.ownership import ALLOCATION_ANNOTATION
from tests.component.cli.program import Program
from tests.fakes.kube_api import FakeKubeApi, Fault
from tests.unit.controller.world import CLASSES, DRIVER, ROOM, machine, policy, request

BOARDS = "hgx-a100-4x2"
TEAM = "team"
READ = [
    ("list", each)
    for each in (
        "deviceclasses",
        "devicetaintrules",
        "nodes",
        "persistentvolumes",
        "persistentvolumeclaims",
        "resourceslices",
        "resourceclaims",
        "pods",
    )
]


@pytest.fixture
def gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """``kubectl gpu`` in an environment that says nothing to it."""
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return Program(capsys, parse, PROGRAM)


def add_node(api: FakeKubeApi, name: str, value: str = "controller", **spec: Any) -> None:
    """A node of two islands of four, and its slice."""
    api.create("nodes", {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": dict(ROOM)}})
    api.create(
        "resourceslices",
        {
            "metadata": {"name": f"{name}-slice"},
            "spec": {
                "driver": DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": json.loads(msgspec.json.encode(machine(BOARDS, value))),
            },
        },
    )


def add_job(api: FakeKubeApi, name: str, *, count: int, config: list[Any] | None = None, **pod: Any) -> None:
    """A pod with a claim of its name."""
    spec = {"devices": {"requests": [request(device_class="topology", count=count)], "config": config or []}}
    api.create("resourceclaims", {"metadata": {"name": name, "namespace": TEAM}, "spec": spec})
    claims = [{"name": "gpus", "resourceClaimName": name}]
    pod_spec = {"containers": [{"name": "main"}], "resourceClaims": claims, **pod}
    api.create("pods", {"metadata": {"name": name, "namespace": TEAM}, "spec": pod_spec})


def allocate(api: FakeKubeApi, name: str, node: str, *positions: int) -> None:
    """kube-scheduler has given the claim these GPUs of a node."""
    names = sorted(device.name for device in machine(BOARDS))
    results = [{"request": "gpus", "driver": DRIVER, "pool": node, "device": names[at]} for at in positions]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}

    def change(claim: dict[str, Any]) -> dict[str, Any]:
        claim["status"] = {
            "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": "u"}],
        }
        return claim

    api.edit("resourceclaims", name, change, namespace=TEAM, is_status=True)


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    """Two nodes, each island half free; and a pod that needs a whole one."""
    with FakeKubeApi() as api:
        for name, spec in CLASSES.items():
            api.create("deviceclasses", {"metadata": {"name": name}, "spec": spec})
        for node in ("node-a", "node-b"):
            add_node(api, node)
            for island in (0, 4):
                name = f"{node}-{island}"
                add_job(api, name, count=2, nodeName=node)
                allocate(api, name, node, island, island + 1)
        add_job(api, "big", count=4, config=[policy(mode="required")])
        yield api


@pytest.fixture
def kubeconfig(api: FakeKubeApi, tmp_path: Path) -> str:
    return str(api.write_kubeconfig(tmp_path / "kubeconfig"))


def test_explain_says_what_waits_and_why(gpu: Program, kubeconfig: str) -> None:
    ended = gpu("explain", "big", "-n", TEAM, "--kubeconfig", kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].rstrip() == "Pod team/big waits"
    assert "2 nodes, 8 free GPUs; need 4 on one NVLink island" in " ".join(ended.out.split())
    assert any(line.strip().startswith("node-a and 1 more  too few devices") for line in lines)
    assert max(len(line) for line in lines) <= 80


def test_explain_for_programs(gpu: Program, kubeconfig: str) -> None:
    found = json.loads(gpu("explain", "big", "-n", TEAM, "--kubeconfig", kubeconfig, "-o", "json").out)
    assert {name: found[name] for name in ("format", "kind", "namespace", "name", "state")} == {
        "format": "gpu-dra.io/explain/v1",
        "kind": "pod",
        "namespace": TEAM,
        "name": "big",
        "state": "waiting",
    }
    assert [(each["node"], each["verdict"], each["need"], each["largest"]) for each in found["nodes"]] == [
        ("node-a", "devices", 4, 2),
        ("node-b", "devices", 4, 2),
    ]
    assert found["nodes"][0]["ways"][0]["heldBy"][0]["claim"] == "team/node-a-0"


def test_the_names_in_the_json_are_kept(gpu: Program, kubeconfig: str) -> None:
    """A stable interface: names may come, none may go."""
    found = json.loads(gpu("explain", "node-a-0", "-n", TEAM, "--kubeconfig", kubeconfig, "-o", "json").out)
    assert list(found) == [
        "format",
        "kind",
        "namespace",
        "name",
        "state",
        "summary",
        "advice",
        "pods",
        "claims",
        "nodes",
        "events",
        "notes",
    ]
    assert list(found["claims"][0]) == [
        "claim",
        "state",
        "node",
        "since",
        "allocator",
        "pods",
        "requests",
        "devices",
        "quality",
    ]
    assert list(found["claims"][0]["devices"][0]) == [
        *("request", "driver", "pool", "device", "gpu", "isAdmin"),
        *("product", "island"),
    ]
    free = json.loads(gpu("fragmentation", "--kubeconfig", kubeconfig, "-o", "json").out)
    assert list(free) == ["format", "driver", "products", "largest", "nodes", "notes"]
    assert list(free["largest"][0]) == ["allocator", "scope", "size", "nodes", "nextSize", "ways"]
    assert list(free["largest"][0]["ways"][0]) == ["node", "scope", "size", "gpus", "free", "heldBy"]
    assert list(free["nodes"][0]) == [
        "node",
        "allocator",
        "isCordoned",
        "product",
        "gpus",
        "free",
        "allocated",
        "unavailable",
        "sets",
        "islands",
        "partitions",
    ]


def test_fragmentation_of_the_cluster(gpu: Program, kubeconfig: str) -> None:
    found = json.loads(gpu("fragmentation", "--kubeconfig", kubeconfig, "-o", "json").out)
    assert found["format"] == "gpu-dra.io/fragmentation/v1"
    assert {each["scope"]: each["size"] for each in found["largest"]} == {"nvlink": 2, "numa": 2, "pcie": 2, "node": 4}
    shown = gpu("fragmentation", "--kubeconfig", kubeconfig)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].rstrip() == "8 of 16 GPUs free on 2 nodes"


def test_the_cluster_is_read_once_and_never_written(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.forget_requests()
    gpu("fragmentation", "--kubeconfig", kubeconfig)
    assert api.history == READ
    api.forget_requests()
    gpu("explain", "big", "-n", TEAM, "--kubeconfig", kubeconfig)
    assert api.history == [*READ, ("list", "events"), ("list", "events")]


def test_the_namespace_is_that_of_the_context(gpu: Program, kubeconfig: str, tmp_path: Path) -> None:
    there = json.loads(Path(kubeconfig).read_text())
    there["contexts"].append({"name": "mine", "context": {"cluster": "fake", "user": "fake", "namespace": TEAM}})
    path = tmp_path / "other"
    path.write_text(json.dumps(there))
    assert gpu("explain", "big", "--kubeconfig", str(path), "--context", "mine").code == 0
    ended = gpu("explain", "big", "--kubeconfig", str(path))
    assert ended.code == 1
    assert ended.err == (
        "kubectl gpu: error: explain big: there is no pod and no claim big in namespace default; "
        "there is one in namespace team: -n team\n"
    )


def test_the_kubeconfig_of_the_environment_is_used(gpu: Program, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert gpu("fragmentation").code == 0


@pytest.mark.parametrize("kind", ["pod/none", "claim/none", "none"])
def test_what_is_not_there_is_code_1(kind: str, gpu: Program, kubeconfig: str) -> None:
    ended = gpu("explain", kind, "-n", TEAM, "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert "none in namespace team; kubectl get pods,resourceclaims" in ended.err


def test_what_the_controller_said_is_shown(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    """What it holds for whom is not in the objects."""
    (pod,) = [each for each in api.objects("pods") if each["metadata"]["name"] == "big"]
    about = {"apiVersion": "v1", "kind": "Pod", "name": "big", "namespace": TEAM, "uid": pod["metadata"]["uid"]}
    for number, regarding in enumerate((about, about | {"uid": "another"})):
        api.create(
            "events",
            {
                "metadata": {"name": f"e{number}", "namespace": TEAM},
                "eventTime": f"2026-12-01T00:00:0{number}.000000Z",
                "reportingController": "gpu.nvidia.com/controller",
                "reportingInstance": "c",
                "action": "Allocate",
                "reason": "ClaimWaiting",
                "type": "Normal",
                "regarding": regarding,
                "note": f"note {number}",
            },
        )
    found = json.loads(gpu("explain", "big", "-n", TEAM, "--kubeconfig", kubeconfig, "-o", "json").out)
    assert found["events"] == [
        {
            "time": "2026-12-01T00:00:00.000000Z",
            "reason": "ClaimWaiting",
            "note": "note 0",
            "reporter": "gpu.nvidia.com/controller",
        }
    ]


def test_who_may_not_read_volumes_and_events_is_still_answered(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    for resource in ("persistentvolumes", "persistentvolumeclaims", "events", "devicetaintrules"):
        api.fail(Fault(verb="list", resource=resource, status=403, reason="Forbidden", message="not yours", times=9))
    ended = gpu("explain", "big", "-n", TEAM, "--kubeconfig", kubeconfig)
    assert ended.code == 0
    told = " ".join(ended.out.split())
    assert "persistentvolumes may not be listed (403 Forbidden): what they bind pods to is not looked at" in told
    assert "devicetaintrules may not be listed (403 Forbidden): taints of rules are not seen" in told


@pytest.mark.parametrize("resource", ["pods", "nodes", "resourceslices", "resourceclaims", "deviceclasses"])
def test_who_may_not_read_what_is_needed_is_told_what_to_ask_for(
    resource: str, gpu: Program, api: FakeKubeApi, kubeconfig: str
) -> None:
    api.fail(Fault(verb="list", resource=resource, status=403, reason="Forbidden", message="not yours", times=9))
    ended = gpu("fragmentation", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert f"kubectl auth can-i list {resource} --all-namespaces" in ended.err


def test_a_cluster_without_taint_rules_is_read(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    """They are served from 1.37 on."""
    api.fail(Fault(verb="list", resource="devicetaintrules", status=404, reason="NotFound", message="no such", times=9))
    ended = gpu("fragmentation", "--kubeconfig", kubeconfig, "-o", "json")
    assert (ended.code, json.loads(ended.out)["notes"]) == (0, [])


def test_a_cluster_that_is_away_is_code_1(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    api.stop()
    ended = gpu("fragmentation", "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert "no answer from the API server" in ended.err
    assert "? Is it the cluster that you mean?" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["status", "fragmentation"])
@pytest.mark.parametrize(("status", "said"), [(401, "log in again"), (404, "Kubernetes 1.34 and later")])
def test_what_no_right_would_mend_is_not_called_one(
    command: str, status: int, said: str, gpu: Program, api: FakeKubeApi, kubeconfig: str
) -> None:
    for resource in ("resourceslices", "deviceclasses"):
        api.fail(Fault(verb="list", resource=resource, status=status, reason="No", message="no", times=9))
    ended = gpu(command, "--kubeconfig", kubeconfig)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert "auth can-i" not in ended.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["explain"], "the following arguments are required: NAME"),
        (["explain", "big", "--kubeconfig", "/nowhere"], "reading a kubeconfig from /nowhere"),
        (["explian", "big"], "did you mean explain?"),
        (["fragmentation", "--all-node"], "did you mean --all-nodes?"),
        (["explain", "big", "-n", "A_B"], "'A_B' is no namespace; give the name that `kubectl get namespaces` shows"),
        (["status", "-n", ""], "'' is no namespace; give the name that `kubectl get namespaces` shows"),
        (["fragmentation", "--driver-name", "GPU"], "'GPU' is no driver name; give a lower-case DNS name of at most 63 bytes"),
        (["topology", "--schedulers", ","], "',' is no list of names; say one or more, such as default-scheduler,batch"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_command_line_is_code_2(line: list[str], said: str, gpu: Program) -> None:
    ended = gpu(*line)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


@pytest.mark.parametrize("command", ["", "explain", "fragmentation"])
def test_help_has_examples_and_exit_codes(command: str, gpu: Program) -> None:
    ended = gpu(*([command] if command else []), "--help")
    assert ended.code == 0
    assert "examples:" in ended.out
    assert "exit codes" in ended.out


def test_the_program_runs_as_a_process_of_its_own(kubeconfig: str) -> None:
    """The program that kubectl looks for on the PATH is ``kubectl-gpu``."""
    program = Path(sys.executable).with_name("kubectl-gpu")
    command = [str(program)] if program.exists() else [sys.executable, "-m", "driver.cli.gpu.main"]
    environ = {**os.environ, "KUBECONFIG": kubeconfig, "COLUMNS": "80"}
    environ.pop("KUBERNETES_SERVICE_HOST", None)
    ended = subprocess.run([*command, "explain", "big", "-n", TEAM], env=environ, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("Pod team/big waits")
    assert ended.stderr == ""


def test_pods_of_other_schedulers_wait_for_the_controller_if_it_serves_them(
    gpu: Program, api: FakeKubeApi, kubeconfig: str
) -> None:
    add_job(api, "other", count=1, schedulerName="volcano")
    line = ("explain", "other", "-n", TEAM, "--kubeconfig", kubeconfig, "-o", "json")
    states = [json.loads(gpu(*line, *more).out)["state"] for more in ((), ("--schedulers", "default-scheduler,volcano"))]
    assert states == ["blocked", "placeable"]


def test_who_allocated_is_told(gpu: Program, api: FakeKubeApi, kubeconfig: str) -> None:
    found = json.loads(gpu("explain", "node-a-0", "-n", TEAM, "--kubeconfig", kubeconfig, "-o", "json").out)
    assert [each["allocator"] for each in found["claims"]] == ["kube-scheduler"]
    assert ALLOCATION_ANNOTATION not in json.dumps(api.objects("resourceclaims"))
