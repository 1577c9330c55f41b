"""One caller, one call after the other: each call of the plugin's beside one of the floor's."""

from __future__ import annotations

from collections.abc import Iterator

from hack.bench.calls import Claim
from hack.bench.figure import Figure, Target
from hack.bench.measures.rows import measure_rows
from hack.bench.stage import Stage

PREPARE = Target(of="ratio", at_most=3.0)


def measure_calls(stage: Stage) -> Iterator[Figure]:
    """An empty call, prepare, the same again, unprepare; and the floor with and without the read of the claim."""
    claims: list[Claim] = []
    while len(claims) < stage.scale.pairs:
        claims += stage.make_claims(min(len(stage.devices), stage.scale.pairs - len(claims)))
    rows = [
        (
            {"call_empty": stage.prepare()},
            {"floor": stage.floor_step(claim)},
            {"floor_with_get": stage.floor_get_step(claim)},
            {"prepare": stage.prepare(claim), "prepare_again": stage.prepare(claim), "unprepare": stage.unprepare(claim)},
        )
        for claim in (claims[0], *claims)
    ]
    times = measure_rows(stage, rows)
    stage.author.delete_claims(claims)
    floor = times.pop("floor")
    for name in ("call_empty", "floor_with_get", "prepare", "prepare_again", "unprepare"):
        yield Figure(name=name, unit="ms", values=times[name], floor=floor, target=PREPARE if name == "prepare" else None)
    yield Figure(name="prepare_over_floor_with_get", unit="ms", values=times["prepare"], floor=times["floor_with_get"])


def measure_one_call_of_8(stage: Stage) -> Iterator[Figure]:
    """One call that names eight claims."""
    claims = stage.make_claims(8)
    own = {"prepare": stage.prepare(*claims), "unprepare": stage.unprepare(*claims)}
    row = ({"floor": stage.floor_step(*claims)}, own)
    times = measure_rows(stage, [row] * (stage.scale.few_pairs + 1))
    stage.author.delete_claims(claims)
    yield Figure(name="prepare_8_in_one_call", unit="ms", values=times["prepare"], floor=times["floor"], target=PREPARE)
    yield Figure(name="unprepare_8_in_one_call", unit="ms", values=times["unprepare"], floor=times["floor"])
