"""One caller, one call after the other: each call of the plugin's beside one of the floor's."""

from __future__ import annotations

from collections.abc import Iterator

from hack.bench.calls import Claim
from hack.bench.figure import Figure, Target
from hack.bench.stage import Stage


def measure_calls(stage: Stage) -> Iterator[Figure]:
    """An empty call, prepare, the same again, unprepare; and the floor with and without the read of the claim."""
    claims: list[Claim] = []
    while len(claims) < stage.scale.pairs:
        claims += stage.make_claims(min(len(stage.devices), stage.scale.pairs - len(claims)))
    rows = []
    for claim in [claims[0], *claims]:  # the first row is warming up
        steps = [
            stage.prepare(),
            stage.floor_step(claim),
            stage.prepare(claim),
            stage.floor_get_step(claim),
            stage.prepare(claim),
            stage.unprepare(claim),
        ]
        rows.append([took.ms for took in stage.in_a_row(steps)])
    empty, floor, prepare, floor_get, again, unprepare = (list(column) for column in zip(*rows[1:], strict=True))
    stage.author.delete_claims(claims)
    yield Figure(name="call_empty", unit="ms", values=empty, floor=floor)
    yield Figure(name="floor_with_get", unit="ms", values=floor_get, floor=floor)
    yield Figure(name="prepare", unit="ms", values=prepare, floor=floor, target=Target(of="ratio", at_most=3.0))
    yield Figure(name="prepare_over_floor_with_get", unit="ms", values=prepare, floor=floor_get)
    yield Figure(name="prepare_again", unit="ms", values=again, floor=floor)
    yield Figure(name="unprepare", unit="ms", values=unprepare, floor=floor)


def measure_one_call_of_8(stage: Stage) -> Iterator[Figure]:
    """One call that names eight claims."""
    claims = stage.make_claims(8)
    rows = []
    for _ in range(stage.scale.few_pairs + 1):
        steps = [stage.floor_step(*claims), stage.prepare(*claims), stage.unprepare(*claims)]
        rows.append([took.ms for took in stage.in_a_row(steps)])
    floor, prepare, unprepare = (list(column) for column in zip(*rows[1:], strict=True))
    stage.author.delete_claims(claims)
    yield Figure(name="prepare_8_in_one_call", unit="ms", values=prepare, floor=floor, target=Target(of="ratio", at_most=3.0))
    yield Figure(name="unprepare_8_in_one_call", unit="ms", values=unprepare, floor=floor)
