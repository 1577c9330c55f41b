"""A machine that says something else at each look: the devices that claims hold stay what they are."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from driver.node.machine import MachineReader
from driver.nvml.readings import GpuReading, MachineReading
from tests.component.node.one_node import OneNode, one_node
from tests.fakes.kubelet import CallFailed

Change = Callable[[Sequence[GpuReading]], Sequence[GpuReading]]


class Shifting:
    """What the mock says, changed."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.passes = 0
        self._inner: MachineReader

    def wrap(self, inner: MachineReader) -> MachineReader:
        self._inner = inner
        return self

    def read(self) -> MachineReading:
        self.passes += 1
        reading = self._inner.read()
        return dataclasses.replace(reading, gpus=tuple(self.change(reading.gpus)))


@pytest.fixture
def node() -> Iterator[OneNode]:
    with one_node() as made:
        yield made


def keep(gpus: Sequence[GpuReading]) -> Sequence[GpuReading]:
    return gpus


def reverse(gpus: Sequence[GpuReading]) -> Sequence[GpuReading]:
    return tuple(reversed(gpus))


def swap(gpus: Sequence[GpuReading]) -> Sequence[GpuReading]:
    first, second, *rest = gpus
    return (dataclasses.replace(first, uuid=second.uuid), dataclasses.replace(second, uuid=first.uuid), *rest)


def drop(gpus: Sequence[GpuReading]) -> Sequence[GpuReading]:
    return gpus[1:]


def fail(gpus: Sequence[GpuReading]) -> Sequence[GpuReading]:
    raise RecursionError("as nobody expected")


def look(node: OneNode, shifting: Shifting, change: Change) -> None:
    """Two passes with the change in force: the second one is wholly of it."""
    shifting.change = change
    for _ in range(2):
        before = shifting.passes
        node.plugins[0].look_again()
        node.wait(lambda seen=before: shifting.passes > seen)  # type: ignore[misc]


def test_a_claim_keeps_its_gpu_or_is_refused_by_name_whatever_the_machine_says(node: OneNode) -> None:
    """R24: another card under the same name is never given out for the first one; when all is well again, so is the claim."""
    shifting = Shifting(keep)
    node.start(wrap=shifting.wrap)
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    given = node.prepare(claim)
    for change in (reverse, drop, fail):
        look(node, shifting, change)
        assert node.prepare(claim) == given
    look(node, shifting, swap)
    with pytest.raises(CallFailed, match="the card was replaced"):
        node.prepare(claim)
    look(node, shifting, keep)
    assert node.prepare(claim) == given
    node.unprepare(claim)
    assert node.cdi_files() == []


def test_b25_a_gpu_keeps_its_name_when_the_one_before_it_is_gone(node: OneNode) -> None:
    """B25: claim on B, A is taken out, restart: the claim gets B, and A is a clear error."""
    plugin = node.start()
    node.wait_published(8)
    first, second, *_ = sorted(node.devices())
    uuid = node.devices()[second]["attributes"]["uuid"]["string"]
    claim = node.allocate("b", [second])
    node.stop(plugin)
    node.start(wrap=Shifting(drop).wrap)
    node.wait_published(7)
    assert first not in node.devices()
    assert node.prepare(claim)[claim.uid][0].device == second
    assert uuid in node.cdi_files()[0].read_text()
    lost = node.allocate("a", [first])
    with pytest.raises(CallFailed, match=f"has no device '{first}' now"):
        node.prepare(lost)


def test_b31_a_machine_without_gpus_is_quiet_and_its_first_gpus_appear_without_a_restart(node: OneNode) -> None:
    """B31: it registers, publishes a pool without devices, writes nothing more, and is looked at again soon."""
    shifting = Shifting(lambda _: ())
    node.start(wrap=shifting.wrap)
    node.kubelet.wait_registered("gpu.nvidia.com")
    node.wait(lambda: shifting.passes >= 3)
    assert node.devices() == {}
    assert node.api.count("create", "update", "patch", "delete", resource="resourceslices") <= 1
    shifting.change = lambda gpus: gpus[:2]
    node.wait_published(2)


_PROGRAMS: list[str] = []
_STARTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"})


def note_program(event: str, arguments: tuple[Any, ...], *, starts: frozenset[str] = _STARTS) -> None:
    """A hook stays until the process ends, and this module's names end before it."""
    if event in starts:
        _PROGRAMS.append(f"{event} {arguments!r:.200}")


def test_b37_no_program_is_started_from_the_first_look_to_the_last_unprepare(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B37: an empty PATH, the mock, an A100: published, prepared, released."""
    sys.addaudithook(note_program)
    monkeypatch.setenv("PATH", "")
    _PROGRAMS.clear()
    node.start("dgx-a100")
    node.wait_published(8)
    claim = node.allocate("one", [sorted(node.devices())[0]])
    node.prepare(claim)
    node.unprepare(claim)
    assert _PROGRAMS == []
