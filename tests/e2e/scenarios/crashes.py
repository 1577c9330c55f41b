"""The plugin dies before each single write of prepare and unprepare; afterwards nothing is lost, left over or given twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from driver.pb.dra.v1 import api_pb2
from tests.e2e import calls, objects
from tests.e2e.objects import NAMESPACE
from tests.e2e.plugin import Plugin
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
T = TypeVar("T")
_MACHINE = "dgx-h100"
_LAUNCHER = ("-m", "tests.e2e.crash_launcher")
_STEPS_MAX = 60
"""No prepare has as many writes: beyond that the crash point does not count as it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """The file by which the launcher is told where to die."""

    control: Path

    def arm(self, step: int) -> None:
        """Die before the ``step``-th write from now."""
        self.disarm()
        self.control.write_text(str(step))

    def disarm(self) -> None:
        """Die no more."""
        self.control.unlink(missing_ok=True)
        self.done.unlink(missing_ok=True)

    @property
    def done(self) -> Path:
        """Says what was about to be written, once the process has died."""
        return self.control.with_name(f"{self.control.name}.done")


def new_fragile_plugin(stage: Stage, name: str = "crash") -> tuple[Plugin, CrashPoint]:
    """A plugin that can be told where to die; not started."""
    stage.folders.logs.mkdir(parents=True, exist_ok=True)
    point = CrashPoint(control=stage.folders.logs / name)
    point.disarm()
    below = [stage.folders.claim_records, stage.folders.plugin_dir / "dra-device-metadata", stage.folders.cdi_root]
    environment = {"E2E_CRASH": str(point.control), "E2E_CRASH_BELOW": ":".join(map(str, below))}
    return stage.new_plugin(_MACHINE, environment=environment, launcher=_LAUNCHER), point


@SUITE.add("kill -9 before each write of prepare")
def crash_in_prepare(stage: Stage) -> str:
    """The restarted plugin prepares the claim with the same ids, gives its devices to nobody else, and releases it whole."""
    plugin, point = _start_fragile(stage)
    devices = _pool_devices(stage)
    steps = []
    for step in range(1, _STEPS_MAX):
        message = _create_claim(stage, f"claim-{step}", devices[:2])
        point.arm(step)
        died = _call_and_see(partial(calls.call_prepare, plugin.service_socket, [message]), plugin)
        what = point.done.read_text() if died else ""
        point.disarm()
        if died:
            steps.append(what)
            plugin.start()
            plugin.wait_serving()
        _expect_prepared_once(stage, plugin, message, devices[:2])
        if not died:
            break
    expect(len(steps) > 2, f"only {len(steps)} writes were met: {steps}")
    return f"died {len(steps)} times, at each write: {_summarize(steps, stage)}"


@SUITE.add("kill -9 before each write of unprepare")
def crash_in_unprepare(stage: Stage) -> str:
    """The restarted plugin finishes the unprepare, and the devices are free."""
    plugin, point = _start_fragile(stage)
    devices = _pool_devices(stage)
    steps = []
    for step in range(1, _STEPS_MAX):
        message = _create_claim(stage, f"claim-{step}", devices[:2])
        answer = calls.prepare_until_done(plugin.service_socket, message)
        expect(not answer.error, f"prepare failed: {answer.error}")
        point.arm(step)
        died = _call_and_see(partial(calls.call_unprepare, plugin.service_socket, [message]), plugin)
        what = point.done.read_text() if died else ""
        point.disarm()
        if died:
            steps.append(what)
            plugin.start()
            plugin.wait_serving()
            error = calls.call_unprepare(plugin.service_socket, [message])[message.uid]
            expect(not error, f"unprepare after a death before {what!r}: {error}")
        _expect_nothing_left(stage, f"after a death before {what!r}")
        if not died:
            break
    expect(len(steps) > 1, f"only {len(steps)} writes were met: {steps}")
    return f"died {len(steps)} times, at each write: {_summarize(steps, stage)}"


@SUITE.add("kill -9 under the kubelet, in prepare and in unprepare")
def crash_under_kubelet(stage: Stage) -> str:
    """The kubelet's own retries end well: the pod runs with its devices, and ends."""
    plugin, point = _start_fragile(stage)
    two = objects.claim_spec([objects.exactly(count=2)])
    for step in (1, 2, 3):
        name = f"pod-{step}"
        point.arm(step)
        stage.create_pod(name, two)
        _restart_after_death(plugin, point)
        stage.expect_own_devices(name, stage.wait_running(name))
        point.arm(step)
        stage.api.delete("Pod", NAMESPACE, name)
        _restart_after_death(plugin, point)
        stage.wait_gone("Pod", [name])
        _expect_nothing_left(stage, f"after the kubelet had ended {name}")
    return "3 pods: each met a death in its prepare and one in its unprepare, ran, and ended"


@SUITE.add("two instances at once, one of them dies in each write")
def crash_beside_another(stage: Stage) -> str:
    """Both are asked for one claim at the same time; the survivor does the work, and the other one comes back to the same."""
    plugin, point = _start_fragile(stage)
    other = stage.start_plugin(_MACHINE)
    devices = _pool_devices(stage)
    deaths = 0
    for step in range(1, 9):
        message = _create_claim(stage, f"claim-{step}", devices[:2])
        prepared, died = _call_both(plugin, point, step, partial(calls.call_prepare, claims=[message]), other)
        deaths += died
        expect(not prepared[message.uid].error, f"the other instance failed: {prepared[message.uid].error}")
        again = calls.prepare_until_done(plugin.service_socket, message)
        expect(calls.cdi_ids(again) == calls.cdi_ids(prepared[message.uid]), "the two instances gave different ids")
        released, died = _call_both(plugin, point, step, partial(calls.call_unprepare, claims=[message]), other)
        deaths += died
        expect(not released[message.uid], f"the other instance failed: {released[message.uid]}")
        _expect_nothing_left(stage, f"after both had unprepared {message.name}")
        _expect_prepared_once(stage, other, message, devices[:2])
    expect(deaths > 0, "no instance died: the other one did all the work")
    return f"8 claims prepared and unprepared by both, {deaths} deaths, the same ids each time, nothing left"


def _call_both(
    fragile: Plugin, point: CrashPoint, step: int, call: Callable[..., Mapping[str, T]], other: Plugin
) -> tuple[Mapping[str, T], bool]:
    """Make a call to the one that may die and, at the same time, to the other; the other's answer, and whether the first died.

    Afterwards both run.
    """
    point.arm(step)
    with ThreadPoolExecutor(max_workers=1) as pool:
        dying = pool.submit(_call_and_see, partial(call, fragile.service_socket), fragile)
        answer = call(other.service_socket)
        has_died = dying.result()
    point.disarm()
    if has_died:
        fragile.start()
        fragile.wait_serving()
    return answer, has_died


def _start_fragile(stage: Stage) -> tuple[Plugin, CrashPoint]:
    plugin, point = new_fragile_plugin(stage)
    plugin.start()
    plugin.wait_registered()
    stage.wait_pool(devices=8)
    return plugin, point


def _pool_devices(stage: Stage) -> list[str]:
    return list(objects.slice_devices(stage.wait_pool(devices=8)))


def _create_claim(stage: Stage, name: str, devices: Sequence[str]) -> api_pb2.Claim:
    return calls.claim_message(stage.create_allocated_claim(name, devices))


def _call_and_see(call: Callable[[], object], plugin: Plugin) -> bool:
    """Make a call; whether the plugin died of it."""
    try:
        call()
    except calls.CallFailed:
        plugin.wait_ended()
        return True
    return False


def _restart_after_death(plugin: Plugin, point: CrashPoint) -> None:
    plugin.wait_ended(timeout_s=120.0)
    point.disarm()
    plugin.start()
    plugin.wait_registered()


def _expect_prepared_once(stage: Stage, plugin: Plugin, message: api_pb2.Claim, devices: Sequence[str]) -> None:
    """The claim is (or becomes) prepared with the ids that its uid and devices say; another claim is refused; then it goes."""
    answer = calls.prepare_until_done(plugin.service_socket, message)
    expect(not answer.error, f"prepare after the death failed: {answer.error}")
    ids = calls.cdi_ids(answer)
    for device in devices:
        expect(f"k8s.gpu.nvidia.com/claim={message.uid}-{device}" in ids, f"{device} is not in {ids}")
    expect(calls.cdi_ids(calls.call_prepare(plugin.service_socket, [message])[message.uid]) == ids, "a repeat gives other ids")
    thief = calls.claim_message(stage.create_allocated_claim(f"thief-of-{message.name}", devices[:1]))
    refused = calls.call_prepare(plugin.service_socket, [thief])[thief.uid]
    expect(bool(refused.error), f"{devices[0]} was given to a second claim")
    released = calls.call_unprepare(plugin.service_socket, [message, thief])
    expect(not any(released.values()), f"unprepare failed: {released}")
    _expect_nothing_left(stage, f"after the unprepare of {message.name}")


def _expect_nothing_left(stage: Stage, when: str) -> None:
    metadata = stage.folders.plugin_dir / "dra-device-metadata"
    files = [path for path in metadata.rglob("*") if path.is_file()] if metadata.is_dir() else []
    left = [*stage.folders.list_records(), *stage.folders.list_cdi_files(), *files]
    left = [path for path in left if not path.name.startswith(".")]  # half-written ones are swept at the next start
    expect(not left, f"left {when}: {', '.join(str(path) for path in left)}")


def _summarize(steps: Sequence[str], stage: Stage) -> str:
    names = {str(stage.folders.claim_records): "record", str(stage.folders.cdi_root): "CDI"}
    words = []
    for step in steps:
        event, _, rest = step.partition(" ")
        where = next((word for folder, word in names.items() if rest.startswith(folder)), "metadata")
        words.append(f"{event.removeprefix('os.')} {where}")
    return ", ".join(words)
