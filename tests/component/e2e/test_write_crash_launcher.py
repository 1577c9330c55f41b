"""A process under the write crash dies around exactly the write to a claim that it was told, and at no other request."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.e2e.write_crash_launcher import WriteCrash
from tests.fakes.kube_api import FakeKubeApi

PROGRAM = """
import sys
from pathlib import Path
from driver.controller.objects.model import CLAIMS
from driver.controller.election.lease import LEASES, Lease
from driver.api.meta_v1 import ObjectMeta
from driver.kube.client import KubeClient
from driver.kube.credentials import read_credentials
from tests.e2e.write_crash_launcher import WriteCrash, install
install(WriteCrash(Path(sys.argv[1])))
client = KubeClient(read_credentials(sys.argv[2]))
client.create(LEASES, Lease(metadata=ObjectMeta(name="l", namespace="e2e")), namespace="e2e")
claim = client.get(CLAIMS, "claim", namespace="e2e")
for step in ("one", "two", "three"):
    client.patch(CLAIMS, claim.metadata, {"metadata": {"labels": {"step": step}}})
    client.get(CLAIMS, "claim", namespace="e2e")
"""


def run_program(tmp_path: Path, armed: str) -> tuple[int, str, str]:
    """Exit status, the last step that the API server has, and what the process died around."""
    control = tmp_path / "control"
    if armed:
        control.write_text(armed)
    with FakeKubeApi() as api:
        api.create("resourceclaims", {"metadata": {"name": "claim", "namespace": "e2e"}, "spec": {"devices": {}}})
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        command = [sys.executable, "-c", PROGRAM, str(control), str(kubeconfig)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[3])
        step = api.objects("resourceclaims")[0]["metadata"].get("labels", {}).get("step", "none")
    said = tmp_path / "control.done"
    assert done.returncode <= 0, done.stderr
    return done.returncode, step, said.read_text() if said.exists() else ""


@pytest.mark.parametrize(
    ("armed", "step"),
    [("before 1", "none"), ("after 1", "one"), ("before 3", "two"), ("after 3", "three")],
)
def test_process_dies_around_the_chosen_write(tmp_path: Path, armed: str, step: str) -> None:
    status, found, said = run_program(tmp_path, armed)
    assert (status, found) == (-signal.SIGKILL, step)
    assert said == "PATCH /apis/resource.k8s.io/v1/namespaces/e2e/resourceclaims/claim HTTP/1.1"


@pytest.mark.parametrize("armed", ["", "after 4", "nonsense"])
def test_process_lives_when_no_write_is_the_chosen_one(tmp_path: Path, armed: str) -> None:
    assert run_program(tmp_path, armed) == (0, "three", "")


class Died(Exception):
    pass


class TellingCrash(WriteCrash):
    """Says that it would die, and does not."""

    def _die(self, text: str) -> NoReturn:
        raise Died(text)


def test_counting_begins_anew_with_each_arming(tmp_path: Path) -> None:
    """A process that outlived one arming is armed for another, with no write in between."""
    control, line = tmp_path / "control", b"PUT /apis/resource.k8s.io/v1/namespaces/e2e/resourceclaims/claim HTTP/1.1\r\n"
    crash = TellingCrash(control)
    control.write_text("before 3")
    crash.note_sent(object(), line)
    crash.note_sent(object(), line)
    control.write_text("before 2")
    crash.note_sent(object(), line)
    with pytest.raises(Died, match="PUT"):
        crash.note_sent(object(), line)
