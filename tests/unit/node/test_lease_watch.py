"""Whether there is a controller, by its lease and our own uptime."""

from __future__ import annotations

import pytest

from driver.errors import ApiError
from driver.kube.client import KubeClient
from driver.node.fence import Moment
from driver.node.lease_watch import ABSENT_LEASE_S, LeaseSeen, LeaseWatch, is_controller_gone, note_lease
from tests.fakes.kube_api import FakeKubeApi, Fault

DRAIN_S = 900.0


def at(uptime_s: float, boot: str = "boot-1") -> Moment:
    return Moment(boot_id=boot, uptime_s=uptime_s)


def test_a_lease_counts_from_when_it_was_first_seen_as_it_is() -> None:
    first = note_lease(None, "7", 15.0, at(100.0))
    assert note_lease(first, "7", 15.0, at(200.0)) == first
    assert note_lease(first, "8", 15.0, at(200.0)) == LeaseSeen(version="8", lease_s=15.0, since=at(200.0))
    assert note_lease(first, "7", 15.0, at(5.0, "boot-2")).since == at(5.0, "boot-2")


@pytest.mark.parametrize(("waited_s", "is_gone"), [(DRAIN_S, False), (DRAIN_S + 14.9, False), (DRAIN_S + 15.0, True)])
def test_a_controller_is_gone_when_its_lease_was_over_for_the_draining_time(waited_s: float, is_gone: bool) -> None:
    """The lease itself first: between two renewals it does not change either."""
    seen = LeaseSeen(version="7", lease_s=15.0, since=at(100.0))
    assert is_controller_gone(seen, at(100.0 + waited_s), DRAIN_S) is is_gone


def test_the_watch_looks_at_the_lease_that_it_was_told() -> None:
    with FakeKubeApi() as api:
        watch = LeaseWatch(KubeClient(api.credentials(), timeout_s=5.0), "gpu-dra/gpu-dra-controller")
        spec = {"holderIdentity": "a", "leaseDurationSeconds": 15}
        api.create("leases", {"metadata": {"name": "gpu-dra-controller", "namespace": "gpu-dra"}, "spec": spec})
        assert not watch.look(at(0.0), DRAIN_S)
        api.edit(
            "leases", "gpu-dra-controller", lambda now: now | {"spec": spec | {"leaseTransitions": 1}}, namespace="gpu-dra"
        )
        assert not watch.look(at(10_000.0), DRAIN_S)  # it was renewed meanwhile
        assert watch.look(at(10_000.0 + 15.0 + DRAIN_S), DRAIN_S)


def test_a_lease_that_is_not_there_is_no_controller_but_not_at_once() -> None:
    with FakeKubeApi() as api:
        watch = LeaseWatch(KubeClient(api.credentials(), timeout_s=5.0), "gpu-dra/gpu-dra-controller")
        assert not watch.look(at(0.0), DRAIN_S)
        assert not watch.look(at(ABSENT_LEASE_S + DRAIN_S - 1), DRAIN_S)
        assert watch.look(at(ABSENT_LEASE_S + DRAIN_S), DRAIN_S)


def test_what_cannot_be_read_counts_for_nothing() -> None:
    """Neither before nor after: somebody may have renewed it meanwhile."""
    with FakeKubeApi() as api:
        watch = LeaseWatch(KubeClient(api.credentials(), timeout_s=5.0), "gpu-dra/gpu-dra-controller")
        watch.look(at(0.0), DRAIN_S)
        api.fail(Fault(verb="get", resource="leases", status=403, reason="Forbidden"))
        with pytest.raises(ApiError):
            watch.look(at(500.0), DRAIN_S)
        assert not watch.look(at(10_000.0), DRAIN_S)
        watch.forget()
        assert not watch.look(at(20_000.0), DRAIN_S)
