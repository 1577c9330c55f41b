"""One claim's writes, through everything that a server may answer."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from driver.controller.objects.model import Claim
from driver.controller.writing.attempt import Attempt, Attempts, WritePace
from driver.controller.writing.claim_steps import End, Placing, Step, build_allocated, build_mark, choose_placing_step
from driver.errors import ApiError, Conflict
from tests.fakes.kube_objects import KubeObjects
from tests.unit.controller.desk import StillClock
from tests.unit.controller.memory_claim_api import MemoryClaimApi, Trouble, decode, refusal, unreachable
from tests.unit.controller.world import NAMESPACE, request
from tests.unit.controller.writing.test_claim_steps import POD, WANT

PACE = WritePace(give_up_s=10.0, backoff_base_s=0.1, backoff_cap_s=1.0)


class Lease:
    """Whether writes are allowed, and what to do when that is asked."""

    def __init__(self) -> None:
        self.is_held = True
        self.asked = 0
        self.on_ask: Callable[[], None] = lambda: None

    def may_write(self) -> bool:
        self.asked += 1
        self.on_ask()
        return self.is_held


class Bench:
    """A claim, and an attempt to place it."""

    def __init__(self) -> None:
        self.objects = KubeObjects()
        self.api = MemoryClaimApi(self.objects)
        self.clock = StillClock()
        self.lease = Lease()
        self.attempts = Attempts(
            self.api, self.lease, PACE, rng=random.Random(1), clock=self.clock.steady_s, pause=self.clock.advance
        )
        spec = {"devices": {"requests": [request()]}}
        body = {"metadata": {"name": "claim", "namespace": NAMESPACE}, "spec": spec}
        self.claim = decode(self.objects.create("resourceclaims", body), Claim)
        self.want = Placing(claim=self.claim, allocation=WANT.allocation, consumers=(POD,))

    def place(self) -> tuple[End, Attempt]:
        attempt = self.attempts.begin(self.claim)
        return attempt.run(self.choose, self.act), attempt

    def choose(self, claim: Claim) -> Step | End:
        return choose_placing_step(claim, self.want)

    def act(self, step: Step, claim: Claim) -> Claim:
        if step is Step.MARK:
            return self.api.patch(claim, build_mark(claim, self.want.digest))
        return self.api.put_status(claim, build_allocated(claim, self.want))

    def now(self) -> Claim:
        return self.api.read_claim(self.claim)

    def trouble(self, what: Callable[[], ApiError], *numbers: int, when: str = "before") -> None:
        self.api.troubles += [Trouble(number, when, what) for number in numbers]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_two_writes_and_no_read(bench: Bench) -> None:
    end, attempt = bench.place()
    assert end is End.DONE
    assert (bench.api.writes, bench.api.reads) == (["mark", "allocate"], 0)
    assert attempt.claim == bench.now()
    assert bench.lease.asked == 3, "before each step, the one that finds it done included"


def test_a_claim_that_was_seen_too_early_is_read_again(bench: Bench) -> None:
    bench.objects.edit(
        "resourceclaims",
        "claim",
        lambda now: now | {"metadata": now["metadata"] | {"labels": {"a": "b"}}},
        namespace=NAMESPACE,
    )
    end, _ = bench.place()
    assert end is End.DONE
    assert (bench.api.writes, bench.api.reads) == (["mark", "mark", "allocate"], 1)


def test_a_write_whose_answer_was_lost_is_found_to_be_done(bench: Bench) -> None:
    bench.trouble(unreachable, 2, when="after")
    end, attempt = bench.place()
    assert end is End.DONE
    assert bench.api.writes == ["mark", "allocate"]
    assert attempt.claim == bench.now()


@pytest.mark.parametrize(
    ("what", "end"),
    [
        pytest.param(refusal(422, "Invalid"), End.REFUSED, id="422"),
        pytest.param(refusal(403, "Forbidden"), End.REFUSED, id="403"),
        pytest.param(refusal(404, "NotFound"), End.GONE, id="404"),
    ],
)
def test_what_the_server_says_for_good_is_not_tried_again(bench: Bench, what: Callable[[], ApiError], end: End) -> None:
    bench.trouble(what, 2)
    assert bench.place()[0] is end
    assert bench.api.writes == ["mark", "allocate"]


def test_a_server_in_trouble_is_asked_for_a_while_and_then_no_more(bench: Bench) -> None:
    bench.trouble(refusal(500, "InternalError"), *range(2, 100))
    end, attempt = bench.place()
    assert end is End.UNKNOWN
    assert bench.clock.now_s <= 1000 + PACE.give_up_s + PACE.backoff_cap_s
    assert 8 < len(bench.api.writes) < 60, "neither a hot loop nor asleep"
    assert "500 InternalError" in attempt.text


def test_a_doubt_is_resolved_by_a_change_that_the_write_on_its_way_fails_on(bench: Bench) -> None:
    """Else it could still be stored, and the devices be somebody else's by then."""
    bench.api.on_write = _fail_allocations
    end, before = bench.place()
    assert end is End.UNKNOWN
    marked = before.claim
    attempt = bench.attempts.begin(bench.claim)
    assert attempt.resolve(bench.choose) is End.GIVEN_UP
    assert bench.api.writes[-1] == "unmark"
    bench.api.on_write = lambda what, claim: None
    with pytest.raises(Conflict):
        bench.api.put_status(marked, build_allocated(marked, bench.want))
    assert attempt.claim == bench.now()


def _fail_allocations(what: str, claim: Claim) -> None:
    if what == "allocate":
        raise unreachable()


def test_too_many_requests_leave_no_doubt(bench: Bench) -> None:
    """The server says that it did nothing: there is nothing to be undone."""
    bench.trouble(refusal(429, "TooManyRequests"), *range(1, 100))
    assert bench.place()[0] is End.GIVEN_UP
    assert "unmark" not in bench.api.writes


def test_without_the_lease_nothing_is_sent(bench: Bench) -> None:
    bench.lease.is_held = False
    assert bench.place()[0] is End.GIVEN_UP
    assert bench.api.writes == []


def test_a_lease_that_is_renewed_in_time_is_waited_for(bench: Bench) -> None:
    bench.lease.is_held = False

    def renew() -> None:
        bench.lease.is_held = bench.clock.now_s > 1003

    bench.lease.on_ask = renew
    assert bench.place()[0] is End.DONE


def test_a_lease_that_goes_in_doubt_leaves_it_unknown(bench: Bench) -> None:
    def lose(what: str, claim: Claim) -> None:
        if what == "allocate":
            bench.lease.is_held = False
            raise unreachable()

    bench.api.on_write = lose
    assert bench.place()[0] is End.UNKNOWN


def test_a_stop_ends_it_between_two_writes(bench: Bench) -> None:
    bench.api.on_write = lambda what, claim: bench.attempts.stopped.set()
    assert bench.place()[0] is End.STOPPED
    assert bench.api.writes == ["mark"]


def test_what_became_of_a_write_is_found_out(bench: Bench) -> None:
    bench.place()
    attempt = bench.attempts.begin(bench.claim)
    assert attempt.resolve(bench.choose) is End.DONE
    assert bench.api.writes == ["mark", "allocate"]


def test_a_claim_that_cannot_be_read_stays_in_doubt(bench: Bench) -> None:
    def refuse(claim: Claim) -> Claim:
        raise unreachable()

    bench.api.read_claim = refuse  # type: ignore[method-assign]
    attempt = bench.attempts.begin(bench.claim)
    assert attempt.resolve(bench.choose) is End.UNKNOWN
