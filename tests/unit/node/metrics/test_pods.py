"""Which pods use a claim, and what knowing it costs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from driver.api.resource_v1 import Consumer, ResourceClaim
from driver.claims.record import ClaimRecord, RecordedDevice, State
from driver.errors import ApiUnreachable, ClaimNotFound
from driver.node.metrics.pods import AGAIN_S, MOST_AT_ONCE, MOST_PODS, ClaimPods
from tests.fakes import claims as fakes


def pod(name: str) -> Consumer:
    return Consumer(resource="pods", name=name)


def used_by(number: int, *consumers: Consumer) -> ResourceClaim:
    made = fakes.claim(fakes.ref(number), [fakes.result(0)])
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, reserved_for=consumers))


def record(number: int, *, is_from_template: bool = True) -> ClaimRecord:
    of = fakes.ref(number)
    device = RecordedDevice(request="gpus", pool="node-a", device=fakes.device(0), uuid="GPU-1", cdi_device_ids=("a/b=c",))
    return ClaimRecord(
        state=State.PREPARE_COMPLETED,
        namespace=of.namespace,
        name=of.name,
        uid=of.uid,
        pod_claim_name="gpu" if is_from_template else None,
        devices=(device,),
    )


class Desk:
    """The pods, an API server that counts, and work that waits until a test runs it."""

    def __init__(self) -> None:
        self.api = fakes.Api()
        self.now_s = 0.0
        self.behind: list[Callable[[], None]] = []
        self.pods = ClaimPods(self.api, clock=lambda: self.now_s, run_behind=self.behind.append)

    def run_behind(self) -> None:
        work, self.behind[:] = list(self.behind), []
        for each in work:
            each()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_prepare_that_reads_the_claim_tells_its_pods(desk: Desk) -> None:
    desk.api.put(used_by(1, pod("b"), pod("a")))
    assert desk.pods.read_claim(fakes.ref(1)) == used_by(1, pod("b"), pod("a"))
    assert desk.pods.names(fakes.uid(1)) == ("a", "b")
    desk.pods.follow([record(1)])
    assert desk.behind == [], "nothing is asked for again"


def test_other_consumers_are_no_pods(desk: Desk) -> None:
    desk.api.put(
        used_by(1, pod("a"), Consumer(api_group="example.com", resource="pods", name="x"), Consumer(resource="jobs", name="y"))
    )
    desk.pods.read_claim(fakes.ref(1))
    assert desk.pods.names(fakes.uid(1)) == ("a",)


def test_a_shared_claim_has_at_most_a_few(desk: Desk) -> None:
    desk.api.put(used_by(1, *(pod(f"p{number:03}") for number in range(256))))
    desk.pods.read_claim(fakes.ref(1))
    assert desk.pods.names(fakes.uid(1)) == tuple(f"p{number:03}" for number in range(MOST_PODS))


def test_a_claim_of_another_uid_is_not_remembered(desk: Desk) -> None:
    desk.api.put(used_by(1, pod("a")))
    other = msgspec.structs.replace(used_by(1, pod("a")).metadata, uid=fakes.uid(9))
    desk.api.put(msgspec.structs.replace(used_by(1, pod("a")), metadata=other))
    desk.pods.read_claim(fakes.ref(1))
    assert desk.pods.names(fakes.uid(1)) == ()


def test_claims_from_before_this_process_are_asked_for_behind_the_scrape(desk: Desk) -> None:
    desk.api.put(used_by(1, pod("a")))
    desk.pods.follow([record(1)])
    assert (desk.api.reads, desk.pods.names(fakes.uid(1))) == (0, ())
    desk.run_behind()
    assert (desk.api.reads, desk.pods.names(fakes.uid(1))) == (1, ("a",))


def test_claims_that_are_gone_are_forgotten(desk: Desk) -> None:
    desk.api.put(used_by(1, pod("a")))
    desk.pods.read_claim(fakes.ref(1))
    desk.pods.follow([])
    assert desk.pods.names(fakes.uid(1)) == ()


@pytest.mark.parametrize(
    ("is_from_template", "asks"),
    [pytest.param(True, 0, id="from a template: it never changes"), pytest.param(False, 1, id="named: it may")],
)
def test_only_claims_that_several_pods_may_use_are_asked_for_again(desk: Desk, is_from_template: bool, asks: int) -> None:
    held = [record(1, is_from_template=is_from_template)]
    desk.api.put(used_by(1, pod("a")))
    desk.pods.read_claim(fakes.ref(1))
    desk.now_s = AGAIN_S - 1
    desk.pods.follow(held)
    assert desk.behind == []
    desk.api.put(used_by(1, pod("a"), pod("b")))
    desk.now_s = AGAIN_S
    desk.pods.follow(held)
    desk.run_behind()
    assert desk.api.reads == 1 + asks
    assert desk.pods.names(fakes.uid(1)) == (("a", "b") if asks else ("a",))


def test_one_round_at_a_time_and_not_many_requests_each(desk: Desk) -> None:
    held = [record(number) for number in range(100)]
    desk.api.put(*(used_by(number, pod(f"p{number}")) for number in range(100)))
    desk.pods.follow(held)
    desk.pods.follow(held)
    assert len(desk.behind) == 1
    desk.run_behind()
    assert desk.api.reads == MOST_AT_ONCE
    for _ in range(4):
        desk.pods.follow(held)
        desk.run_behind()
    assert desk.api.reads == 100
    assert desk.pods.names(fakes.uid(99)) == ("p99",)


def test_a_server_that_is_down_is_left_alone_for_a_while(desk: Desk) -> None:
    desk.api.is_down = True
    desk.pods.follow([record(1)])
    desk.run_behind()
    desk.pods.follow([record(1)])
    assert (desk.api.reads, desk.behind) == (1, [])
    desk.api.is_down = False
    desk.api.put(used_by(1, pod("a")))
    desk.now_s = AGAIN_S
    desk.pods.follow([record(1)])
    desk.run_behind()
    assert desk.pods.names(fakes.uid(1)) == ("a",)


def test_a_claim_that_is_gone_from_the_server_does_not_keep_the_others(desk: Desk) -> None:
    desk.api.put(used_by(2, pod("b")))
    desk.pods.follow([record(1), record(2)])
    desk.run_behind()
    assert desk.pods.names(fakes.uid(2)) == ("b",)


@pytest.mark.parametrize("is_down", [True, False], ids=["the server is down", "there is no claim"])
def test_a_prepare_hears_of_the_failure_as_before(desk: Desk, is_down: bool) -> None:
    desk.api.is_down = is_down
    with pytest.raises(ApiUnreachable if is_down else ClaimNotFound):
        desk.pods.read_claim(fakes.ref(1))
