"""What is not ours: left alone, told once, and no work in any later round."""

from __future__ import annotations

from driver.controller.books.demands import Demand
from driver.controller.deciding.decision import LeaveAlone
from driver.controller.deciding.waiting_line import WaitingLine
from driver.controller.objects.model import Pod
from tests.unit.controller.deciding.rounds import decide, demand
from tests.unit.controller.world import NOW_S, World, request, world


class Looked:
    """Notes which demands are asked for, one by one or all."""

    def __init__(self, made: World) -> None:
        book = made.cluster.demand_book
        self._find, self._in_order = book.find, book.in_order
        self.keys: set[str] = set()
        book.find, book.in_order = self._note_one, self._note_all  # type: ignore[method-assign]

    def _note_one(self, key: str) -> Demand | None:
        self.keys.add(key)
        return self._find(key)

    def _note_all(self) -> list[Demand]:
        found = list(self._in_order())
        self.keys.update(each.key for each in found)
        return found


def test_what_is_left_alone_is_told_once_and_again_when_the_reason_is_another() -> None:
    made = world("a")
    made.job("p", request(device_class="late"))
    line = WaitingLine(made.cluster)
    missing = "p: claim p: request gpus: DeviceClass late does not exist"
    assert decide(made, line) == [missing]
    assert decide(made, line) == []
    assert [each.reason for each in line.left_alone.values()] == [missing.removeprefix("p: ")]
    made.classes({"late": {"selectors": [{"cel": {"expression": "device.driver == 'x'"}}]}})
    assert decide(made, line) == ["p: no device of gpu.nvidia.com matches request gpus of claim p"]
    made.classes({"late": {}})
    assert decide(made, line) == ["p@a"]
    assert dict(line.left_alone) == {}


def test_what_was_left_alone_and_is_gone_is_forgotten() -> None:
    made = world("a")
    made.job("p", request(device_class="late"))
    line = WaitingLine(made.cluster)
    decide(made, line)
    made.remove(Pod, "p")
    decide(made, line)
    assert dict(line.left_alone) == {}


def test_what_is_left_alone_is_told_in_the_next_round_where_this_one_was_broken_off() -> None:
    made = world("a")
    for name in ("p", "q", "r"):
        made.job(name, request(device_class="late"))
    line = WaitingLine(made.cluster)
    first = next(iter(line.decide_all(NOW_S)))
    rest = decide(made, line)
    assert len(rest) == 2
    assert {first.demand.pods[0].metadata.name, *(each[0] for each in rest)} == {"p", "q", "r"}
    assert len(line.left_alone) == 3
    assert decide(made, line) == []


def test_what_is_left_alone_is_explained_with_its_reason() -> None:
    made = world("a")
    made.job("p", request(device_class="late"))
    explained = WaitingLine(made.cluster).explain(demand(made, "p"))
    assert isinstance(explained, LeaveAlone)
    assert explained.is_fault


def test_what_is_kube_schedulers_is_looked_at_once_however_much_there_is_of_it() -> None:
    """Thousands of pods may wait for kube-scheduler while ours come one by one."""
    made = world("a")
    for number in range(50):
        made.job(f"theirs-{number}", request(device_class="late"))
    line = WaitingLine(made.cluster)
    decide(made, line)
    looked = Looked(made)
    made.job("ours")
    assert decide(made, line) == ["ours@a"]
    assert looked.keys == {made.get(Pod, "ours").metadata.uid}
