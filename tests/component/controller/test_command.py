"""``gpu-dra controller`` as a process: how it begins, how it ends, and what is left when it is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.component.controller.scene import Scene

QUICK = ("--lease-s", "3", "--renew-s", "2", "--retry-s", "0.2", "--request-timeout-s", "1", "--unbound-s", "1")
LAUNCHER = ("-m", "tests.e2e.write_crash_launcher")
PROGRAM = ("-m", "driver.cli.main")


class Process:
    """One ``gpu-dra controller``."""

    def __init__(self, cluster: Scene, folder: Path, *options: str, launcher: Sequence[str] = PROGRAM) -> None:
        kubeconfig = cluster.api.write_kubeconfig(folder / "kubeconfig")
        self.log = folder / "log"
        self.control = folder / "crash"
        command = [sys.executable, *launcher, "controller", "--kubeconfig", str(kubeconfig), "--namespace", "gpu-dra"]
        command += ["--pod-name", "one", "--pod-uid", "uid-1", "--log-format", "text", *(options or QUICK)]
        environment = os.environ | {"E2E_CRASH": str(self.control)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(60)


@pytest.fixture
def processes(cluster: Scene) -> Iterator[list[Process]]:
    cluster.add_node("node-a")
    cluster.add_node("node-b")
    started: list[Process] = []
    with cluster.life.live():
        yield started
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait(10)


def lease(cluster: Scene) -> dict[str, object]:
    leases = cluster.api.objects("leases")
    return dict(leases[0]["spec"]) if leases else {}


def test_it_serves_until_it_is_told_to_stop(cluster: Scene, processes: list[Process], tmp_path: Path) -> None:
    processes.append(Process(cluster, tmp_path))
    cluster.add_job("pod", 2)
    cluster.wait_bound("pod")
    assert lease(cluster)["holderIdentity"] == "one_uid-1"
    assert processes[0].end() == 0
    assert lease(cluster).get("holderIdentity", "") == ""
    assert cluster.devices("pod"), "what is allocated stays"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_stand_by_ends_at_once(cluster: Scene, processes: list[Process], tmp_path: Path, number: signal.Signals) -> None:
    cluster.start("other")
    cluster.wait(lambda: lease(cluster).get("holderIdentity") == "other")
    processes.append(Process(cluster, tmp_path, *QUICK, "--lease-name", "controller"))
    cluster.wait(lambda: cluster.api.count("get", resource="leases") > 4)
    assert processes[0].end(number) == 0


def test_a_lost_lease_is_exit_code_4(cluster: Scene, processes: list[Process], tmp_path: Path) -> None:
    processes.append(Process(cluster, tmp_path))
    cluster.wait(lambda: lease(cluster).get("holderIdentity") == "one_uid-1")
    name = "gpu-dra-controller"
    cluster.api.edit("leases", name, lambda now: now | {"spec": now["spec"] | {"holderIdentity": "thief"}}, namespace="gpu-dra")
    assert processes[0].wait() == 4
    assert "thief holds it now" in processes[0].log.read_text()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        pytest.param(("--lease-s", "0"), "'0' s is too short; say more than 0 seconds", id="no time"),
        pytest.param(("--lease-s", "5", "--renew-s", "5"), "must be longer than renew", id="times that do not fit"),
        pytest.param(("--schedulers", ""), "say one or more", id="no scheduler"),
        pytest.param(("--health-address", "nowhere"), "is no address", id="no address"),
        pytest.param(("--health-address", "unix:/run/x"), "HOST:PORT or :PORT is needed", id="a unix socket"),
    ],
)
def test_wrong_settings_are_exit_code_2(
    cluster: Scene, processes: list[Process], tmp_path: Path, options: tuple[str, ...], what: str
) -> None:
    processes.append(Process(cluster, tmp_path, *options))
    assert processes[0].wait() == 2
    assert what in processes[0].log.read_text()


def test_an_address_that_is_taken_is_exit_code_1(cluster: Scene, processes: list[Process], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        processes.append(Process(cluster, tmp_path, "--health-address", f"127.0.0.1:{taken.getsockname()[1]}"))
        assert processes[0].wait() == 1
    assert "is the address in use?" in processes[0].log.read_text()


def test_killed_after_its_second_write_and_started_again(cluster: Scene, processes: list[Process], tmp_path: Path) -> None:
    """Two claims of a pod. Each write for itself is the business of ``unit/controller/test_crashes``."""
    cluster.add_claim("first", 2)
    cluster.add_claim("second", 3)
    cluster.add_pod("pod", "first", "second")
    codes: list[int] = []
    while len(codes) < 2:
        processes.append(Process(cluster, tmp_path, launcher=LAUNCHER))
        processes[-1].control.write_text("after 2")
        codes.append(processes[-1].wait())
    processes.append(Process(cluster, tmp_path))
    cluster.wait_bound("pod")
    cluster.wait(lambda: "guard" not in (*cluster.reserved("first"), *cluster.reserved("second")))
    assert set(codes) == {-signal.SIGKILL}
    cluster.delete_pod("pod")
    cluster.wait(lambda: not cluster.held())
