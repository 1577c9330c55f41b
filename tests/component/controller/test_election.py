"""Contenders in threads on a real connection: outages, pauses, conflicts; never two writers at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from driver.controller.election.elector import Elector, Standing, read_clock_s
from driver.controller.election.lease import ElectionSettings
from driver.controller.election.lease_api import ApiLeases
from driver.controller.election.thread import Election
from driver.errors import LeadershipLost
from driver.kube.client import KubeClient
from tests.fakes.kube_api import FakeKubeApi, Fault

LEASE = "gpu-dra-controller"
WAIT_S = 60.0


def times(identity: str) -> ElectionSettings:
    """Short, and not so short that a busy machine loses a lease."""
    return ElectionSettings(
        namespace="kube-system", name=LEASE, identity=identity, lease_s=3.0, renew_s=2.0, retry_s=0.2, request_timeout_s=1.0
    )


@dataclass
class Contender:
    """One process's election. ``skew_s`` is added to its clock, as if it had been stopped for so long."""

    api: FakeKubeApi
    identity: str
    skew_s: float = 0.0
    heard: list[Standing] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = KubeClient(self.api.credentials(), timeout_s=1.0)
        settings = times(self.identity)
        elector = Elector(ApiLeases(self.client, settings), settings, clock=lambda: read_clock_s() + self.skew_s)
        self.failures: list[Exception] = []
        self.election = Election(elector, self.heard.append, self.failures.append)

    def close(self) -> None:
        self.election.stop(timeout_s=WAIT_S)
        self.client.close()


class Group:
    """The contenders, and a watcher that looks all the time for two that may write."""

    def __init__(self, api: FakeKubeApi) -> None:
        self.api = api
        self.all: list[Contender] = []
        self.overlaps: list[set[str]] = []
        self._is_over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def start(self, identity: str) -> Contender:
        contender = Contender(self.api, identity)
        self.all.append(contender)
        contender.election.start()
        return contender

    def writer(self) -> Contender | None:
        return next((each for each in list(self.all) if each.election.may_write()), None)

    def wait(self, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < end_s, [each.election.describe() for each in self.all]
            time.sleep(0.01)

    def wait_writer(self, *among: Contender) -> Contender:
        self.wait(lambda: self.writer() in (among or self.all))
        found = self.writer()
        assert found is not None
        return found

    def close(self) -> None:
        self._is_over.set()
        self._watcher.join()
        for each in self.all:
            each.close()
        assert not self.overlaps

    def _watch(self) -> None:
        while not self._is_over.wait(0.002):
            writers = {each.identity for each in list(self.all) if each.election.may_write()}
            if len(writers) > 1:
                self.overlaps.append(writers)


@contextmanager
def group_of(api: FakeKubeApi) -> Iterator[Group]:
    group = Group(api)
    try:
        yield group
    finally:
        group.close()


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as running:
        yield running


@pytest.fixture
def group(api: FakeKubeApi) -> Iterator[Group]:
    with group_of(api) as made:
        yield made


def holder(api: FakeKubeApi) -> str:
    leases = api.objects("leases")
    return str(leases[0]["spec"].get("holderIdentity", "")) if leases else ""


def test_one_of_three_leads_and_the_lease_says_who(api: FakeKubeApi, group: Group) -> None:
    for name in "abc":
        group.start(name)
    leader = group.wait_writer()
    assert holder(api) == leader.identity
    assert leader.heard == [Standing.TAKING_OVER, Standing.LEADING]
    others = [each for each in group.all if each is not leader]
    group.wait(lambda: all(each.election.describe() == f"standby, {leader.identity} leads" for each in others))
    lease = api.objects("leases")[0]["spec"]
    assert (lease["leaseDurationSeconds"], lease.get("leaseTransitions", 0)) == (3, 0)


def test_a_graceful_stop_hands_over_at_once(api: FakeKubeApi, group: Group) -> None:
    first, second = group.start("a"), group.start("b")
    leader = group.wait_writer()
    follower = second if leader is first else first
    began_s = time.monotonic()
    leader.election.stop(timeout_s=WAIT_S)
    assert leader.election.standing is Standing.RELEASED
    group.wait_writer(follower)
    assert follower.heard[-1] is Standing.LEADING
    assert api.objects("leases")[0]["spec"]["leaseTransitions"] == 1
    assert time.monotonic() - began_s < WAIT_S


def test_an_outage_ends_the_leader_and_another_follows(api: FakeKubeApi, group: Group) -> None:
    first, second = group.start("a"), group.start("b")
    leader = group.wait_writer()
    follower = second if leader is first else first
    api.stop()
    group.wait(lambda: leader.election.standing is Standing.LOST)
    assert not leader.election.may_write()
    with pytest.raises(LeadershipLost, match="not renewed"):
        leader.election.check()
    assert "no answer from the API server" in follower.election.describe()
    api.start()
    group.wait_writer(follower)
    assert leader.heard[-1] is Standing.LOST


def test_a_short_outage_costs_nothing(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    api.stop()
    group.wait(lambda: "no answer" in leader.election.describe())
    api.start()
    group.wait(lambda: leader.election.describe() == "leading")
    assert leader.heard == [Standing.TAKING_OVER, Standing.LEADING]
    leader.election.check()


def test_a_leader_that_was_stopped_for_long_wakes_up_and_has_lost(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    leader.skew_s = 60.0
    assert not leader.election.may_write()
    with pytest.raises(LeadershipLost):
        leader.election.check()
    group.wait(lambda: Standing.LOST in leader.heard)
    group.wait_writer(group.start("b"))


def test_conflicts_and_throttling_are_borne(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    for status, reason in ((409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")):
        api.fail(Fault(verb="update", resource="leases", status=status, reason=reason, times=2))
        seen = api.count("update", resource="leases")
        group.wait(lambda seen=seen: api.count("update", resource="leases") >= seen + 4)  # type: ignore[misc]
    group.wait(lambda: leader.election.describe() == "leading")
    assert leader.heard == [Standing.TAKING_OVER, Standing.LEADING]


def test_an_answer_that_was_cut_off_costs_nothing(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    for _ in range(3):
        api.close_idle_connections()
        seen = api.count("update", resource="leases")
        group.wait(lambda seen=seen: api.count("update", resource="leases") >= seen + 2)  # type: ignore[misc]
    assert leader.heard == [Standing.TAKING_OVER, Standing.LEADING]


def test_slow_answers_stop_the_writing_before_the_lease_ends(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    api.fail(Fault(verb="update", resource="leases", kind="delay", delay_s=2.5, times=50))
    group.wait(lambda: not leader.election.may_write())
    group.wait(lambda: leader.election.standing is Standing.LOST)


def test_a_deleted_lease_ends_the_leader(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    api.delete("leases", LEASE, namespace="kube-system")
    group.wait(lambda: Standing.LOST in leader.heard)
    with pytest.raises(LeadershipLost, match="it was deleted"):
        leader.election.check()


def test_who_may_not_read_the_lease_says_so_and_leads_once_it_may(api: FakeKubeApi, group: Group) -> None:
    api.fail(Fault(resource="leases", status=403, reason="Forbidden", message="no", times=3))
    contender = group.start("a")
    group.wait(lambda: "403 Forbidden: no" in contender.election.describe())
    group.wait_writer(contender)


def test_a_label_on_the_lease_is_kept(api: FakeKubeApi, group: Group) -> None:
    leader = group.start("a")
    group.wait_writer(leader)
    api.edit(
        "leases",
        LEASE,
        lambda lease: {**lease, "metadata": {**lease["metadata"], "labels": {"team": "gpu"}}},
        namespace="kube-system",
    )
    seen = api.objects("leases")[0]["spec"]["renewTime"]
    group.wait(lambda: api.objects("leases")[0]["spec"]["renewTime"] != seen)
    assert api.objects("leases")[0]["metadata"]["labels"] == {"team": "gpu"}
    assert leader.heard == [Standing.TAKING_OVER, Standing.LEADING]


def test_three_contenders_in_trouble_have_one_writer_at_most(api: FakeKubeApi, group: Group) -> None:
    """Leaders are stopped, paused, and cut off; who lost is started anew, as the kubelet does."""
    for number in range(3):
        group.start(f"{number}")
    for round_ in range(4):
        leader = group.wait_writer()
        if round_ % 3 == 0:
            leader.election.stop(timeout_s=WAIT_S)
        elif round_ % 3 == 1:
            leader.skew_s = 30.0
        else:
            api.stop()
            group.wait(lambda leader=leader: leader.election.standing is Standing.LOST)  # type: ignore[misc]
            api.start()
        group.start(f"{leader.identity}-again")
    group.wait_writer()


def test_it_can_be_stopped_before_it_is_started(api: FakeKubeApi) -> None:
    Contender(api, "a").close()
    assert api.count() == 0


def test_a_thread_that_breaks_says_so_and_does_not_release(api: FakeKubeApi) -> None:
    """Somebody may still be writing: the lease ends by itself."""

    def break_down(standing: Standing) -> None:
        if standing is Standing.LEADING:
            raise RuntimeError("played by the test")

    contender = Contender(api, "a")
    elector = Elector(ApiLeases(contender.client, times("a")), times("a"))
    election = Election(elector, break_down, contender.failures.append)
    election.start()
    end_s = time.monotonic() + WAIT_S
    while not contender.failures:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    election.stop(timeout_s=WAIT_S)
    assert (str(contender.failures[0]), holder(api)) == ("played by the test", "a")
    contender.close()
