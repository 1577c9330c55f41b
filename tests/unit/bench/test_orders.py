"""What client processes are told, the machines of a run, and the words of the command line."""

from __future__ import annotations

import msgspec
import pytest

from driver.nvml.mock.document import MachineDocument
from hack.bench.__main__ import ONE_NODE, OWN_NODE, parse_arguments
from hack.bench.calls import Order, Outcome, Step, Took, spread
from hack.bench.machines import MANY, build_machine
from hack.bench.measures.rows import order_blocks
from hack.bench.stage import QUICK, Scale


def steps(count: int) -> tuple[tuple[Step, ...], ...]:
    return tuple((Step(f"/s{number}", "prepare", (("ns", "claim", str(number)),)),) for number in range(count))


@pytest.mark.parametrize(
    ("callers", "processes", "sizes"),
    [
        pytest.param(56, 4, [14, 14, 14, 14], id="evenly"),
        pytest.param(5, 4, [2, 1, 1, 1], id="the-rest-goes-to-the-first"),
        pytest.param(1, 4, [1], id="no-process-without-a-caller"),
    ],
)
def test_callers_are_dealt_out(callers: int, processes: int, sizes: list[int]) -> None:
    """Each caller once."""
    dealt = spread(steps(callers), processes)
    assert [len(share) for share in dealt] == sizes
    assert sorted(str(each) for share in dealt for each in share) == sorted(str(each) for each in steps(callers))


def test_order_and_outcome_survive_the_pipe() -> None:
    order = Order(callers=steps(3), at=12.5)
    outcome = Outcome(callers=((Took(ms=1.5, ended_at=2.0), Took(ms=1.0, ended_at=3.0, error="busy")),))
    assert msgspec.json.decode(msgspec.json.encode(order), type=Order) == order
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome


@pytest.mark.parametrize("gpus", [1, 8, MANY])
def test_machine_is_one_that_the_mock_takes(gpus: int) -> None:
    document = msgspec.convert(build_machine(gpus), MachineDocument)
    addresses = [pci for group in document.gpus for pci in group.pci]
    assert len(set(addresses)) == gpus


def test_half_of_the_gpus_are_on_each_socket() -> None:
    (group,) = build_machine(64)["gpus"]
    assert [group["numa"].count(node) for node in (0, 1)] == [32, 32]
    assert len(set(group["root"])) == 8


def test_every_measure_can_be_asked_for_alone() -> None:
    for name in (*OWN_NODE, *ONE_NODE):
        assert parse_arguments(["--only", name]).only == [name]


@pytest.mark.parametrize("argv", [["--only", "nothing"], ["--clients", "x"], ["--loud"]], ids=" ".join)
def test_wrong_words_end_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(argv)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_quick_is_less_of_the_same() -> None:
    """Every count is smaller, and claims held fit on the GPUs that are left."""
    whole = Scale()
    assert QUICK.pairs < whole.pairs
    assert set(QUICK.held) < set(whole.held)
    assert set(QUICK.callers) < set(whole.callers)
    assert max(whole.callers) == whole.round_claims <= MANY


def test_every_order_of_blocks_comes_by_turns() -> None:
    """No call profits for the whole run from what went before it; calls of one block stay together."""
    own = {"prepare": Step("/s", "prepare"), "unprepare": Step("/s", "unprepare")}
    blocks = ({"floor": Step("/f", "prepare")}, own, {"get": Step("/g", "prepare")})
    orders = [tuple(name for block in order_blocks(blocks, number) for name in block) for number in range(12)]
    assert len(set(orders[:6])) == 6
    assert orders[6:] == orders[:6]
    assert all(order.index("unprepare") == order.index("prepare") + 1 for order in orders)
