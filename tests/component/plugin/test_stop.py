"""The end of an instance: SIGTERM in the middle of a prepare, kill -9, and what the next one finds."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.component.plugin.node import DRIVER, PluginNode
from tests.fakes.claim_service import SlowClaimService, build_devices, make_claim
from tests.fakes.kubelet import CallFailed, FakeKubelet, Manners, NotRegistered

REPOSITORY = Path(__file__).resolve().parents[3]
SLOW = make_claim(1, name="slow")
QUICK = make_claim(2)

StartProcess = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_process(node: PluginNode) -> Iterator[StartProcess]:
    """Starts a plugin process on the node, and returns once it serves."""
    running: list[subprocess.Popen[str]] = []

    def start(instance: str, grace_s: float = 10.0) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.component.plugin.process", str(node.root), instance, str(grace_s)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


class Caller:
    """A prepare that runs beside the test."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.answer: object = None
        self._kubelet = kubelet
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.answer = self._kubelet.prepare(DRIVER, [SLOW])
        except (CallFailed, NotRegistered) as err:
            self.answer = err

    def join(self) -> object:
        self._thread.join()
        return self.answer


def effects(node: PluginNode) -> dict[str, str]:
    return {each.name: each.read_text() for each in (node.root / "effects").iterdir()}


def start_slow_prepare(node: PluginNode, kubelet: FakeKubelet) -> Caller:
    kubelet.wait_registered(DRIVER)
    caller = Caller(kubelet)
    assert kubelet.wait(lambda: SLOW.uid in effects(node), 30)
    return caller


def test_sigterm_lets_a_running_prepare_finish(node: PluginNode, start_process: StartProcess) -> None:
    """B58: the kubelet gets the answer, the exit code is 0, and no socket is left."""
    process = start_process("pod-1")
    with FakeKubelet(node.registry_dir) as kubelet:
        caller = start_slow_prepare(node, kubelet)
        process.send_signal(signal.SIGTERM)
        assert kubelet.wait(lambda: "dra-pod-1.sock" not in node.sockets())
        (node.root / "finish").touch()
        assert caller.join() == {SLOW.uid: build_devices(SLOW.uid)}
        assert process.wait(30) == 0
    assert node.sockets() == set()
    assert effects(node) == {SLOW.uid: "done"}


def test_sigterm_rolls_a_prepare_back_that_outlasts_the_grace(node: PluginNode, start_process: StartProcess) -> None:
    """B58: in time, with exit code 0."""
    process = start_process("pod-1", 2.0)
    with FakeKubelet(node.registry_dir) as kubelet:
        caller = start_slow_prepare(node, kubelet)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert isinstance(caller.join(), CallFailed)
        assert process.wait(30) == 0
        assert time.monotonic() - started < 15
    assert node.sockets() == set()
    assert effects(node) == {}


def test_a_plugin_that_was_killed_is_followed_by_one_that_serves(node: PluginNode, start_process: StartProcess) -> None:
    """B57: kill -9 leaves all files; the same pod's next container takes the same names."""
    process = start_process("pod-1")
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        left = node.sockets()
        process.kill()
        process.wait(30)
        assert node.sockets() == left
        start_process("pod-1")
        assert kubelet.wait(lambda: prepares(kubelet), 30)
        assert node.sockets() == left


def prepares(kubelet: FakeKubelet) -> bool:
    try:
        return bool(kubelet.prepare(DRIVER, [QUICK]))
    except (CallFailed, NotRegistered):
        return False


def test_the_files_of_a_killed_instance_go_with_the_next_pod(node: PluginNode, start_process: StartProcess) -> None:
    """And the kubelet forgets the dead instance, since its registration socket is gone."""
    process = start_process("pod-1")
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        process.kill()
        process.wait(30)
        start_process("pod-2")
        assert kubelet.wait(lambda: [Path(each.endpoint).name for each in kubelet.plugins(DRIVER)] == ["dra-pod-2.sock"])
        assert kubelet.prepare(DRIVER, [QUICK])
    assert node.sockets() == {"dra-pod-2.sock", "dra-pod-2.lock", f"{DRIVER}-pod-2-reg.sock"}


def test_a_killed_instance_in_the_middle_of_a_prepare_fails_the_call_and_no_more(
    node: PluginNode, start_process: StartProcess
) -> None:
    process = start_process("pod-1")
    with FakeKubelet(node.registry_dir) as kubelet:
        caller = start_slow_prepare(node, kubelet)
        process.kill()
        assert isinstance(caller.join(), CallFailed)
        (node.root / "finish").touch()
        start_process("pod-2")
        assert kubelet.wait(lambda: prepares(kubelet), 30)


def test_a_stop_beside_a_live_second_process_leaves_it_whole(node: PluginNode, start_process: StartProcess) -> None:
    old = start_process("pod-1")
    start_process("pod-2")
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER, count=2)
        old.send_signal(signal.SIGTERM)
        assert old.wait(30) == 0
        assert node.sockets() == {"dra-pod-2.sock", "dra-pod-2.lock", f"{DRIVER}-pod-2-reg.sock"}
        assert kubelet.wait(lambda: prepares(kubelet))


def test_a_stop_does_not_wait_for_health_streams(node: PluginNode) -> None:
    """The kubelet never ends its stream; a graceful stop would wait for it in vain."""
    server = node.start()
    with FakeKubelet(node.registry_dir, Manners(health_retry_s=0.1)) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(lambda: bool(kubelet.health(DRIVER)))
        started = time.monotonic()
        assert node.stop(server, grace_s=60)
        assert time.monotonic() - started < 20


def test_a_handler_that_hears_nothing_is_not_waited_for_beyond_the_grace(node: PluginNode) -> None:
    """The caller of ``stop`` is told, so that it can end the process all the same (R13)."""
    is_over, begun = threading.Event(), threading.Event()

    def hang(*_: object) -> dict[object, object]:
        begun.set()
        is_over.wait()
        return {}

    service = SlowClaimService()
    service._prepare_with = hang  # type: ignore[assignment]
    server = node.start(claim_service=service)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        caller = Caller(kubelet)
        assert begun.wait(30)
        assert not node.stop(server, grace_s=0.5)
        assert isinstance(caller.join(), CallFailed)
        is_over.set()
    assert node.sockets() == set()
