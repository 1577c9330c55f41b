"""What the commands of a page name is looked up, and nothing is run."""

from __future__ import annotations

import pytest

from hack.checks.commands import find_wrong, split_commands
from hack.checks.tree import REPOSITORY


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        pytest.param("a b\nc\n", [["a", "b"], ["c"]], id="lines"),
        pytest.param("a | b -x && c; d\n", [["a"], ["b", "-x"], ["c"], ["d"]], id="pipes and ends"),
        pytest.param("a \\\n  b\n", [["a", "b"]], id="a line that goes on"),
        pytest.param("A=1 a b # why\n", [["a", "b"]], id="a variable before, a comment after"),
        pytest.param("a -f - <<'END'\nkind: Pod\nEND\nb\n", [["a", "-f", "-"], ["b"]], id="a here-document"),
        pytest.param("a 'x | y; z'\n", [["a", "x | y; z"]], id="quotes"),
    ],
)
def test_a_script_is_cut_into_commands(script: str, commands: list[list[str]]) -> None:
    assert list(split_commands(script)) == commands


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("gpu-dra inspect --nvml mock:dgx-h100", "", id="ours"),
        pytest.param("gpu-dra record > my-machine.yaml", "", id="to a file"),
        pytest.param("gpu-dra inspect --nvmll mock:t4", "'--nvmll' is no argument", id="a flag of ours that there is not"),
        pytest.param("gpu-dra look", "invalid choice", id="a command of ours that there is not"),
        pytest.param("kubectl gpu explain POD -n TEAM", "", id="the plugin of kubectl"),
        pytest.param("kubectl gpu explain POD --wide", "'--wide' is no argument", id="a flag of the plugin that there is not"),
        pytest.param("kubectl -n gpu-dra get pods", "", id="kubectl"),
        pytest.param("kubectl -n=gpu-dra show pods", "kubectl has no 'show'", id="a verb that there is not"),
        pytest.param("kubectl apply -f deploy/examples/claim-template.yaml", "", id="a manifest"),
        pytest.param("kubectl apply -f deploy/examples/claim.yaml", "there is no deploy/examples/claim.yaml", id="no manifest"),
        pytest.param("kubectl apply -f MANIFEST", "", id="the reader's manifest"),
        pytest.param("helm install gpu-dra deploy/helm/gpu-dra --set image.tag=1", "", id="helm"),
        pytest.param("helm upgrade gpu-dra deploy/helm/gpu-dra --set image.tagg=1", "no value image.tagg", id="no such value"),
        pytest.param("helm template gpu-dra deploy/helm/gpu-dra", "--kube-version", id="of which Kubernetes"),
        pytest.param("helm look gpu-dra", "helm has no ['look']", id="a verb of helm that there is not"),
        pytest.param("docker build .", "", id="another's program"),
    ],
)
def test_what_is_not_there_is_named(command: str, words: str) -> None:
    (one,) = split_commands(command)
    found = "\n".join(find_wrong(one, REPOSITORY))
    assert (words in found) if words else not found, found
