"""Two instances of the plugin on one folder: interleaved, killed with -9, hung. Real processes, real file locks."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.claims.instances import Instance
from tests.fakes.claims import Node, claim, prepare_one, ref, result, uid, unprepare_one

PREPARE_STEPS = ["prepare:metadata", "prepare:record-PrepareCompleted", "prepare:cdi-file", "prepare:done"]
UNPREPARE_STEPS = [
    "unprepare:record-UnprepareStarted",
    "unprepare:delete-cdi-file",
    "unprepare:delete-record",
    "unprepare:done",
]


def ids(number: int) -> dict[str, object]:
    position = number % 8
    return {"ids": [[f"k8s.gpu.nvidia.com/claim={uid(number)}-gpu-0000-{0x10 + position:02x}-00-0"]]}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Instance]]:
    """One folder, and an instance on it that lives through all that happens to others."""
    folder = tmp_path_factory.mktemp("node")
    with Instance(folder) as survivor:
        yield folder, survivor


def test_b18_200_interleaved_calls_of_two_processes_end_as_a_serial_replay(tmp_path: Path) -> None:
    """B18: claims overlap in time and across processes; calls for one claim keep their order."""
    chance = random.Random(18)
    calls = [(chance.choice(["prepare", "unprepare"]), chance.randrange(8)) for _ in range(200)]
    waiting: dict[int, tuple[Instance, int, str]] = {}
    with Instance(tmp_path / "both") as one, Instance(tmp_path / "both") as other:

        def settle(number: int) -> None:
            if number in waiting:
                instance, asked, act = waiting.pop(number)
                assert instance.answer(asked) == (ids(number) if act == "prepare" else {"ids": []})

        for position, (act, number) in enumerate(calls):
            settle(number)
            instance = (one, other)[position % 2]
            waiting[number] = (instance, instance.ask(act, number), act)
        for number in range(8):
            settle(number)
    serial = Node(tmp_path / "serial")
    serial.api.put(*(claim(ref(n), [result(n)]) for n in range(8)))
    preparer = serial.start()
    for act, number in calls:
        assert not isinstance((prepare_one if act == "prepare" else unprepare_one)(preparer, number), Exception)
    both = Node(tmp_path / "both")
    assert (both.records(), both.cdi_files()) == (serial.records(), serial.cdi_files())
    assert both.leftovers() == serial.leftovers()


def test_b07_two_processes_never_give_one_device_twice(tmp_path: Path) -> None:
    """Sixteen claims want eight GPUs; each answer is compared with all the answers that still stand."""
    node, chance = Node(tmp_path), random.Random(7)
    with Instance(tmp_path) as one, Instance(tmp_path) as other:
        for _ in range(15):
            numbers = chance.sample(range(16), 8)
            asked = [(n, each, each.ask("prepare", n)) for n in numbers for each in [chance.choice([one, other])]]
            for number, instance, request in asked:
                answer = instance.answer(request)
                assert answer == ids(number) or answer["error"] == "DeviceInUse"
            devices = [record["devices"][0]["device"] for record in node.records().values()]
            assert len(devices) == len(set(devices))
            assert len(node.granted()) == len(devices)
            for number in chance.sample(range(16), 8):
                assert chance.choice([one, other]).do("unprepare", number) == {"ids": []}


@pytest.mark.parametrize("step", PREPARE_STEPS)
def test_a_process_killed_in_prepare_leaves_a_claim_that_the_other_can_finish(shared: tuple[Path, Instance], step: str) -> None:
    folder, survivor = shared
    with Instance(folder, KILL_AT=step) as victim:
        victim.ask("prepare", 1)
        assert victim.wait_for_death() == -signal.SIGKILL
    assert survivor.do("prepare", 1) == ids(1)
    assert survivor.do("prepare", 9)["error"] == "DeviceInUse"
    assert survivor.do("unprepare", 1) == {"ids": []}
    assert survivor.do("prepare", 9) == ids(9)
    assert survivor.do("unprepare", 9) == {"ids": []}
    assert Node(folder).leftovers() == []


@pytest.mark.parametrize("step", UNPREPARE_STEPS)
def test_a_process_killed_in_unprepare_leaves_a_claim_that_the_other_can_release(
    shared: tuple[Path, Instance], step: str
) -> None:
    folder, survivor = shared
    assert survivor.do("prepare", 1) == ids(1)
    with Instance(folder, KILL_AT=step) as victim:
        victim.ask("unprepare", 1)
        assert victim.wait_for_death() == -signal.SIGKILL
    assert survivor.do("unprepare", 1) == {"ids": []}
    assert survivor.do("prepare", 9) == ids(9)
    assert survivor.do("unprepare", 9) == {"ids": []}
    assert Node(folder).leftovers() == []


def test_r13_a_process_with_hung_work_ends_at_once_and_frees_its_locks(shared: tuple[Path, Instance]) -> None:
    """R13: one thread hangs in a step, another waits in the kernel for a lock; neither keeps the process from ending."""
    folder, survivor = shared
    with Instance(folder, BLOCK_AT="prepare:cdi-file") as hung:
        hung.ask("prepare", 1)
        hung.wait_for("blocked")
        busy = survivor.do("prepare", 1, seconds=3.5)
        assert busy["error"] == "ClaimBusy"
        assert f"process {hung.process.pid}" in busy["text"]
        assert "at prepare:cdi-file" in busy["text"]
        assert survivor.do("prepare", 2) == ids(2), "another claim on another GPU does not wait"
        assert hung.process.stdin is not None
        hung.process.stdin.close()
        assert hung.wait_for_death() == 0
    assert survivor.do("prepare", 1) == ids(1)
    for number in (1, 2):
        assert survivor.do("unprepare", number) == {"ids": []}


def test_b51_a_runtime_that_reads_the_folder_all_the_time_never_sees_a_part(tmp_path: Path) -> None:
    """B51: hundreds of files come and go; each that is there is whole, and every answered id resolves at the answer."""
    node = Node(tmp_path)
    with Instance(tmp_path) as instance:
        for turn in range(40):
            asked = [instance.ask("prepare", number) for number in range(8)]
            while asked:
                request = asked.pop()
                for data in _present(node):
                    json.loads(data)
                instance.answer(request)
            assert node.granted() == {each for n in range(8) for one in ids(n)["ids"] for each in one}  # type: ignore[attr-defined]
            for request in [instance.ask("unprepare", number) for number in range(8)]:
                for data in _present(node):
                    json.loads(data)
                assert instance.answer(request) == {"ids": []}
            assert node.cdi_files() == {}, turn


def _present(node: Node) -> list[bytes]:
    found = []
    for path in [*node.cdi.glob("*.json"), *node.cdi.glob("*.yaml")]:
        try:
            found.append(path.read_bytes())
        except FileNotFoundError:
            continue
    return found
