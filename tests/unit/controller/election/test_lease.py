"""What is written into the lease, and which times work together."""

from __future__ import annotations

import pytest

from driver.api.meta_v1 import ObjectMeta
from driver.controller.election.lease import (
    ElectionSettings,
    Lease,
    LeaseSpec,
    build_first_lease,
    build_identity,
    build_released,
    build_renewed,
    build_taken,
)
from driver.errors import SettingsInvalid
from tests.unit.controller.election.contenders import NOON, make_settings


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        pytest.param({"renew_s": 2.4}, "renew (2.4 s) must be more than 1.2 times retry (2.0 s)", id="renew as short as retry"),
        pytest.param({"lease_s": 10.0}, "lease (10.0 s) must be longer than renew (10.0 s)", id="lease as short as renew"),
        pytest.param({"request_timeout_s": 13.0}, "nothing may ever be written", id="requests as long as the lease"),
        pytest.param({"retry_s": 0.0}, "must be more than 0 s", id="no pause between tries"),
    ],
)
def test_times_that_cannot_work_together_are_refused(change: dict[str, float], fault: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        ElectionSettings(namespace="n", name="l", identity="a", **change)
    assert fault in str(refused.value)


class TestRecords:
    def test_the_first_lease(self) -> None:
        assert build_first_lease(make_settings(), NOON) == Lease(
            metadata=ObjectMeta(name="gpu-dra-controller", namespace="kube-system"),
            spec=LeaseSpec(
                holder_identity="a",
                lease_duration_seconds=15,
                acquire_time="2026-12-01T12:00:00.000000Z",
                renew_time="2026-12-01T12:00:00.000000Z",
            ),
        )

    def test_taking_counts_and_keeps_the_metadata(self) -> None:
        metadata = ObjectMeta(name="l", labels={"team": "gpu"}, resource_version="7")
        taken = build_taken(Lease(metadata=metadata, spec=LeaseSpec(lease_transitions=3)), make_settings(), NOON)
        assert taken.metadata == metadata
        assert (taken.spec.lease_transitions, taken.spec.holder_identity) == (4, "a")

    def test_a_count_that_is_at_its_end_keeps_nobody_from_leading(self) -> None:
        """The server refuses a larger one, and somebody may write anything."""
        lease = Lease(metadata=ObjectMeta(name="l"), spec=LeaseSpec(lease_transitions=2**31 - 1))
        assert build_taken(lease, make_settings(), NOON).spec.lease_transitions == 2**31 - 1

    def test_renewing_changes_the_time_alone(self) -> None:
        first = build_first_lease(make_settings(), NOON)
        later = build_renewed(first, NOON.replace(minute=1))
        assert later.spec.renew_time == "2026-12-01T12:01:00.000000Z"
        assert build_renewed(later, NOON) == first

    def test_releasing_takes_the_holder_out(self) -> None:
        released = build_released(build_first_lease(make_settings(), NOON), NOON)
        assert (released.spec.holder_identity, released.spec.lease_duration_seconds) == ("", 1)

    def test_a_pods_containers_share_an_identity_and_processes_never_do(self) -> None:
        assert build_identity("pod-1", "uid", "x") == build_identity("pod-1", "uid", "y") == "pod-1_uid"
        assert build_identity("host", "", "x") != build_identity("host", "", "y")
