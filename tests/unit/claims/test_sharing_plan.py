"""What sharing takes: nothing that nobody asked for, and nothing that the hardware cannot do (B63, B65)."""

from __future__ import annotations

from typing import Any

import pytest

from driver.api.sharing import Interval, Mps, Sharing, TimeSlicing
from driver.claims.sharing_plan import Candidate, DeviceSharing, MpsUse, SharingPlanned, find_conflict, plan_sharing

GIB = 1024**3
LONG = TimeSlicing(interval=Interval.LONG)


def candidate(number: int = 0, sharing: Sharing | None = None, **changes: object) -> Candidate:
    values: dict[str, object] = {
        "device": f"gpu-{number}",
        "uuid": f"GPU-{number}",
        "compute_capability": (9, 0),
        "sharing": sharing,
        **changes,
    }
    return Candidate(**values)  # type: ignore[arg-type]  # values of the test


def mps(daemon: str = "config-0", **changes: object) -> MpsUse:
    return MpsUse(daemon=daemon, **changes)  # type: ignore[arg-type]  # values of the test


def path(entry: int = 0) -> str:
    return f"status.allocation.devices.config[{entry}].opaque.parameters.sharing"


P4: dict[str, Any] = {"compute_capability": (6, 1)}
V100: dict[str, Any] = {"compute_capability": (7, 0)}
MIG: dict[str, Any] = {"is_mig": True, "device": "mig", "uuid": "MIG-0"}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (candidate(**P4), None),
        (candidate(sharing=TimeSlicing(), **P4), None),
        (candidate(sharing=TimeSlicing(), **V100), DeviceSharing(time_slice=0)),
        (candidate(sharing=LONG, **V100), DeviceSharing(time_slice=3)),
        (candidate(sharing=TimeSlicing(interval=Interval.SHORT)), DeviceSharing(time_slice=1)),
        (candidate(sharing=TimeSlicing(interval=Interval.MEDIUM)), DeviceSharing(time_slice=2)),
        (candidate(sharing=LONG, compute_capability=None), DeviceSharing(time_slice=3)),
        (candidate(sharing=Mps(), **V100), DeviceSharing(is_exclusive_process=True, mps=mps())),
        (candidate(**MIG), None),
        (candidate(sharing=TimeSlicing(), **MIG), None),
        (candidate(sharing=Mps(), **MIG), DeviceSharing(mps=mps())),
        (
            candidate(sharing=Mps(thread_percentage=50, memory_mib=10, is_multi_user=True), entry=3),
            DeviceSharing(
                is_exclusive_process=True,
                mps=mps("config-3", thread_percentage=50, memory_mib=10, is_multi_user=True),
            ),
        ),
        (candidate(sharing=Mps(), share_bytes=10 * GIB), DeviceSharing(mps=mps("share-0", memory_mib=10240))),
        (candidate(sharing=Mps(memory_mib=512), share_bytes=10 * GIB), DeviceSharing(mps=mps("share-0", memory_mib=512))),
        (candidate(sharing=LONG, share_bytes=GIB), DeviceSharing(time_slice=3)),
        (candidate(share_bytes=GIB), None),
    ],
    ids=[
        "P4, nothing asked",
        "P4, its own default",
        "V100, default",
        "V100, long",
        "short",
        "medium",
        "capability unknown: the hardware says",
        "V100, MPS",
        "MIG, nothing asked",
        "MIG, time slices are the GPU's",
        "MIG, MPS",
        "MPS with all",
        "share with MPS: limited to the share",
        "share with MPS and less",
        "share with time slices",
        "share without",
    ],
)
def test_b63_what_is_asked_is_planned_and_nothing_else(of: Candidate, expected: DeviceSharing | None) -> None:
    assert plan_sharing([of]) == SharingPlanned(devices=(expected,))


@pytest.mark.parametrize(
    ("of", "fault"),
    [
        (
            candidate(sharing=LONG, **P4),
            f"{path()}.timeSlicingConfig.interval: Long cannot be set on gpu-0, whose compute capability is 6.1: 7.0 is "
            "needed; say Default, or leave sharing out",
        ),
        (
            candidate(sharing=Mps(), entry=2, **P4),
            f"{path(2)}.strategy: MPS cannot be used on gpu-0, whose compute capability is 6.1: 7.0 is needed; say "
            "TimeSlicing, or leave sharing out",
        ),
        (
            candidate(sharing=Mps(memory_mib=11 * 1024), share_bytes=10 * GIB),
            f"{path()}.mpsConfig: a memory limit of 11264Mi on gpu-0 is more than the share's 10240Mi; leave the limit out to "
            "get the share's",
        ),
        (
            candidate(sharing=Mps(), share_bytes=5),
            f"{path()}.strategy: MPS needs a share of at least 1Mi, and gpu-0 gives less",
        ),
    ],
    ids=["P4, long", "P4, MPS", "more than the share", "a share of nothing"],
)
def test_b63_what_the_device_cannot_do_is_said_with_the_reason(of: Candidate, fault: str) -> None:
    assert plan_sharing([of]).faults == (fault,)


def test_b65_limits_by_position_and_uuid_land_on_the_right_device() -> None:
    """Positions count the UUIDs in order, whatever the order of the allocation."""
    config = Mps(memory_mib=10240, memory_mib_by_device=(("0", 5120), ("GPU-2", 1024)))
    planned = plan_sharing([candidate(2, config), candidate(0, config), candidate(1, config)])
    limits = {number: each.mps.memory_mib for number, each in zip((2, 0, 1), planned.devices, strict=True) if each and each.mps}
    assert (planned.faults, limits) == ((), {2: 1024, 0: 5120, 1: 10240})


@pytest.mark.parametrize(
    ("by_device", "fault"),
    [
        (
            (("0", 5), ("GPU-0", 6)),
            "[GPU-0]: GPU-0 stands there twice, by position and by UUID; say it once",
        ),
        ((("7", 1),), "[7]: the config is for 2 devices: GPU-0, GPU-1; this is none of them"),
        ((("GPU-9", 1),), "[GPU-9]: the config is for 2 devices: GPU-0, GPU-1; this is none of them"),
    ],
    ids=["twice", "past the last", "somebody else's"],
)
def test_b65_limits_of_no_device_and_twice_of_one_are_refused(by_device: tuple[tuple[str, int], ...], fault: str) -> None:
    config = Mps(memory_mib_by_device=by_device)
    planned = plan_sharing([candidate(0, config), candidate(1, config)])
    assert planned.faults == (f"{path()}.mpsConfig.defaultPerDevicePinnedMemoryLimit{fault}",)


def test_each_config_entry_has_a_daemon_and_counts_its_own_devices() -> None:
    first, second = Mps(memory_mib_by_device=(("0", 1),)), Mps(memory_mib_by_device=(("0", 2),))
    planned = plan_sharing([candidate(0, first, entry=1), candidate(1, second, entry=4)])
    assert planned.devices == (
        DeviceSharing(is_exclusive_process=True, mps=mps("config-1", memory_mib=1)),
        DeviceSharing(is_exclusive_process=True, mps=mps("config-4", memory_mib=2)),
    )


def test_every_share_has_a_daemon_of_its_own() -> None:
    planned = plan_sharing([candidate(0, Mps(), share_bytes=GIB), candidate(0, Mps(), share_bytes=2 * GIB)])
    assert planned.devices == (
        DeviceSharing(mps=mps("share-0", memory_mib=1024)),
        DeviceSharing(mps=mps("share-1", memory_mib=2048)),
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "is_fine"),
    [
        (None, None, True),
        (DeviceSharing(time_slice=3), None, True),
        (DeviceSharing(time_slice=3), DeviceSharing(mps=mps()), True),
        (DeviceSharing(time_slice=3), DeviceSharing(time_slice=3), True),
        (DeviceSharing(time_slice=3), DeviceSharing(time_slice=0), False),
    ],
    ids=["nothing", "one asks", "another way", "the same", "two lengths"],
)
def test_a_gpu_has_one_time_slice_for_all_its_shares(
    mine: DeviceSharing | None, theirs: DeviceSharing | None, is_fine: bool
) -> None:
    assert (find_conflict(mine, theirs) is None) is is_fine


def test_two_lengths_within_one_claim_are_refused() -> None:
    planned = plan_sharing(
        [candidate(sharing=LONG, share_bytes=GIB), candidate(sharing=TimeSlicing(), share_bytes=GIB, entry=1)]
    )
    assert planned.faults == (
        f"{path(1)}.timeSlicingConfig.interval: another share of gpu-0 in this claim differs: it has the time slice Long, and "
        "a GPU has one for all its shares",
    )
