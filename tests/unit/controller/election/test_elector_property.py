"""Whatever happens, in whatever order: one writer at most."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.errors import ApiUnreachable
from tests.fakes.leases import FakeLeases, ManualClock
from tests.unit.controller.election.contenders import make_elector

DOWN = ApiUnreachable("PUT lease", 0, "no answer")


@st.composite
def _scripts(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Rows of (what happens, to whom)."""
    acts = ["step", "step", "step", "pass", "pass", "long", "down", "up", "lose", "touch", "release"]
    return draw(st.lists(st.tuples(st.sampled_from(acts), st.integers(0, 2)), min_size=5, max_size=80))


@settings(max_examples=200, deadline=None)
@given(_scripts())
def test_never_two_may_write(script: list[tuple[str, int]]) -> None:
    """And never one while a write of the one before, allowed in time, may still arrive."""
    leases, clock = FakeLeases(), ManualClock()
    electors = [make_elector(leases, clock, name) for name in "abc"]
    last_write_s: dict[int, float] = {}
    for act, who in script:
        if act == "step":
            electors[who].step()
        elif act in {"pass", "long"}:
            clock.now_s += 1.7 if act == "pass" else 16.0
        elif act in {"down", "up"}:
            leases.down = DOWN if act == "down" else None
        elif act == "lose":
            leases.lost_answers = 1
        elif act == "touch" and leases.lease is not None:
            leases.touch()
        elif act == "release":
            electors[who].release()
            last_write_s.pop(who, None)  # its writes have ended, or it would not release
        writers = [number for number, elector in enumerate(electors) if elector.may_write()]
        assert len(writers) <= 1
        for writer in writers:
            others = [at_s for number, at_s in last_write_s.items() if number != writer]
            assert all(at_s + 5.0 <= clock.now_s for at_s in others)
            last_write_s[writer] = clock.now_s
