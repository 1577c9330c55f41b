"""``gpu-dra match --claim``: each request of a claim against devices, with the selectors of its class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.api.claim_spec_v1 import decode_class_spec
from driver.cli.main import main
from driver.cli.match_claims import known_classes

ROOT = Path(__file__).parents[3]
GPU = 'device.attributes["gpu.nvidia.com"]'
OURS = known_classes()["gpu.nvidia.com"].selectors[0].cel.expression
MACHINE = ("--nvml", "mock:dgx-h100", "--node-name", "n")


def request(*selectors: str, name: str = "gpu", device_class: str = "gpu.nvidia.com", **more: object) -> dict[str, Any]:
    chosen = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": chosen, **more}}


def claim(*requests: dict[str, Any], name: str = "train") -> dict[str, Any]:
    return {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": {"requests": list(requests)}}}


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: object, *argv: str) -> tuple[int, str, str]:
    file = tmp_path / "claim.yaml"
    file.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    code = main(["match", "--claim", str(file), *(argv or MACHINE)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("kind", ["gpu", "mig"])
def test_the_known_classes_are_those_that_are_shipped(kind: str) -> None:
    shipped = yaml.safe_load((ROOT / "deviceclasses" / f"{kind}.nvidia.com.yaml").read_text())
    assert known_classes()[f"{kind}.nvidia.com"] == decode_class_spec(json.dumps(shipped["spec"]).encode())


def test_the_whole_answer_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    no = f'{GPU}.productName == "B200"'
    source = f'{GPU}.type == "gpu" && {no}'
    code, out, _ = run(tmp_path, capsys, claim(request(source, count=2)), *MACHINE, "-o", "json")
    assert code == 0
    answered = {"turnedDown": 0, "failing": 0, "controllerRefusal": "", "terms": []}
    term = {"term": no, "devices": 8, "message": "", "hint": ""}
    assert json.loads(out) == {
        "format": "gpu-dra.io/match-claim/v1",
        "requests": [
            {
                "claim": "train",
                "request": "gpu",
                "deviceClass": "gpu.nvidia.com",
                "count": 2,
                "matching": 0,
                "of": 8,
                "selectors": [
                    {"selector": OURS, **answered},
                    {"selector": source, **answered, "turnedDown": 8, "terms": [term]},
                ],
            }
        ],
    }


def test_the_term_that_says_no_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    no = f'{GPU}.productName == "B200"'
    code, out, _ = run(tmp_path, capsys, claim(request(f'{GPU}.type == "gpu" && {no}', count=2)))
    assert code == 0
    lines = " ".join(out.split())
    assert "claim train, request gpu: 2 of gpu.nvidia.com (fewer than that); 0 of 8 devices match" in lines
    assert f"8 x {no}" in lines


def test_a_device_that_the_class_turns_down_is_asked_no_further(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The request's selector would fail on every device, and kube-scheduler never comes to it."""
    code, out, _ = run(tmp_path, capsys, claim(request(f"{GPU}.nothing == 1", device_class="mig.nvidia.com")))
    assert (code, "fails" in out) == (0, False)
    assert "8 x  device.attributes['gpu.nvidia.com'].type == 'mig'" in out


def test_a_selector_that_fails_is_said_with_what_was_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(tmp_path, capsys, claim(request(f'{GPU}.productname == "x"')))
    lines = " ".join(out.split())
    assert code == 1
    assert "did you mean productName?" in lines
    assert "this selector fails on 8: kube-scheduler gives up the pod" in lines


def test_a_selector_that_is_too_slow_for_the_controller_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = f'{GPU}.uuid != "x"'
    for level in range(4):
        slow = f"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(x{level}, {slow})"
    code, out, _ = run(tmp_path, capsys, claim(request(slow)))
    assert code == 1
    assert "gpu-dra controller refuses it: the selector is too slow: it cost 300,0" in " ".join(out.split())


def test_templates_alternatives_and_other_objects_of_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ways = [{"name": name, "deviceClassName": f"{name}.nvidia.com"} for name in ("gpu", "mig")]
    inner = {"devices": {"requests": [{"name": "any", "firstAvailable": ways}]}}
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec": inner}}
    everything = request(name="all", allocationMode="All")
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    text = yaml.safe_dump_all([pod, template, {"kind": "List", "items": [claim(everything)]}])
    code, out, _ = run(tmp_path, capsys, text, *MACHINE, "-o", "json")
    found = [(each["claim"], each["request"], each["count"], each["matching"]) for each in json.loads(out)["requests"]]
    assert (code, found) == (0, [("t", "any/gpu", 1, 8), ("t", "any/mig", 1, 0), ("train", "all", "all", 8)])


def test_classes_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes = tmp_path / "classes.yaml"
    spec = {"selectors": [{"cel": {"expression": f'{GPU}.productName == "B200"'}}]}
    classes.write_text(yaml.safe_dump({"kind": "DeviceClass", "metadata": {"name": "b200"}, "spec": spec}))
    code, out, _ = run(tmp_path, capsys, claim(request(device_class="b200")), *MACHINE, "--classes", str(classes))
    assert (code, "0 of 8 devices match" in out) == (0, True)
    classes.write_text("kind: Pod")
    code, _, err = run(tmp_path, capsys, claim(request()), *MACHINE, "--classes", str(classes))
    assert (code, "has no DeviceClass; `kubectl get deviceclasses -o yaml` prints some" in err) == (2, True)


@pytest.mark.parametrize("example", sorted((ROOT / "deploy" / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_answered(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the classes that are shipped; an example without a claim is told to have none."""
    has_claim = "kind: ResourceClaim" in example.read_text()
    classes = ROOT / "deviceclasses" / "topology.gpu.nvidia.com.yaml"
    more = ("--classes", str(classes)) if "deviceClassName: topology" in example.read_text() else ()
    code = main(["match", "--claim", str(example), *MACHINE, *more])
    assert code == (0 if has_claim else 2), capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no ResourceClaim and no ResourceClaimTemplate"),
        ("{", "is neither YAML nor JSON"),
        ("[1]", "has something that is no Kubernetes object"),
        (claim({"name": "x"}), "claim train: request x: either exactly or firstAvailable is needed"),
        (
            claim(request(device_class="none")),
            "DeviceClass none does not exist (DeviceClasses that are known here: gpu.nvidia.com",
        ),
        (claim(request(surprise=1)), "ResourceClaim train: spec: Object contains unknown field `surprise`"),
        (claim(request("(")), "the selector does not compile"),
        ({"kind": "ResourceClaim", "spec": 3}, "ResourceClaim : spec: Expected `object`, got `int`"),
        (claim(request(cout=2)), "unknown field `cout` - at `$.devices.requests[0].exactly`; did you mean count?"),
        (
            claim(request(device_class="gpu.nvida.com")),
            "does not exist; did you mean gpu.nvidia.com? (DeviceClasses that are known",
        ),
        (claim(request(allocationMode="Al")), "request gpu: allocationMode Al is not known; ExactCount and All are"),
        (claim(request(count=0)), "request gpu: count 0: at least 1 is needed"),
        (claim(request('type == "gpu"')), 'an attribute is device.attributes["DRIVER"].NAME'),
        ({"kind": "Pod"}, "has no ResourceClaim and no ResourceClaimTemplate (it has: Pod); docs/examples.md has some"),
        (
            {**claim(request()), "apiVersion": "resource.k8s.io/v1beta1"},
            "ResourceClaim train is of resource.k8s.io/v1beta1; write it for resource.k8s.io/v1, where what a request asks for",
        ),
    ],
    ids=[
        "empty",
        "no YAML",
        "no objects",
        "nothing asked",
        "no class",
        "unknown field",
        "no selector",
        "no spec",
        "a misspelt field",
        "a misspelt class",
        "a misspelt mode",
        "none",
        "half a selector",
        "another kind",
        "another version",
    ],
)
def test_what_is_no_claim_is_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: object, says: str) -> None:
    code, out, err = run(tmp_path, capsys, text)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["true", "--claim", "x"], "--claim brings its own selectors; leave EXPR and --cases away"),
        (["--cases", "x", "--claim", "x"], "--claim brings its own selectors; leave EXPR and --cases away"),
        (["true", "--classes", "x"], "--classes are those of --claim FILE; give it too"),
    ],
)
def test_flags_that_do_not_go_together(capsys: pytest.CaptureFixture[str], argv: list[str], says: str) -> None:
    assert main(["match", *argv]) == 2
    assert says in capsys.readouterr().err


def test_what_is_null_counts_as_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for the API server: a list whose entries were deleted by hand."""
    empty = {**request(), "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": None, "tolerations": None}}
    body = claim(empty)
    body["spec"]["devices"]["constraints"] = None
    code, out, _ = run(tmp_path, capsys, body)
    assert (code, out.splitlines()[0]) == (0, "claim train, request gpu: 1 of gpu.nvidia.com; 8 of 8 devices match")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param(claim(), "ResourceClaim train asks for nothing: spec.devices.requests", id="a claim"),
        pytest.param({**claim(), "spec": None}, "ResourceClaim train asks for nothing: spec.devices.requests", id="no spec"),
        pytest.param(
            {**claim(request()), "kind": "ResourceClaimTemplate"},
            "ResourceClaimTemplate train asks for nothing: spec.spec.devices.requests",
            id="a template with the claim's spec one level too high",
        ),
    ],
)
def test_a_claim_that_asks_for_nothing_is_said_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: dict[str, Any], path: str
) -> None:
    code, out, err = run(tmp_path, capsys, body)
    assert (code, out) == (2, "")
    assert f"{path} is empty or missing" in err
