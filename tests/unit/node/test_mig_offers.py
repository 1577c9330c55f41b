"""What a pass offers, when claims come and go meanwhile, and when the API server cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from driver.api.resource_v1 import Counter, CounterConsumption, Device
from driver.claims.mig_upkeep import MigClaims
from driver.errors import ApiError, ApiUnreachable
from driver.names import GpuUUID
from driver.node.mig_offers import MigOffers
from driver.nvml.readings import GpuReading, MigReading
from driver.resourceslice.inventory import Inventory
from driver.topology.build import build_topology
from driver.topology.mig import OwnedInstance
from driver.topology.mig_offer import MigSetting
from driver.topology.model import Topology
from tests.unit.topology.machines import gpu, hopper, machine, mig, mig_instance

H = "h100-80gb"
FAULT = "NVML nvmlDeviceGetGpuInstances: UNKNOWN (999)"
UUID = GpuUUID("GPU-00000000-0000-0000-0000-000000000000")
THREE = mig_instance(H, 9, 4)
OURS = MigClaims(owned=frozenset({OwnedInstance(gpu_uuid=UUID, profile_id=9, start=4)}))


@dataclass
class Server:
    """An API server that keeps counters, drops them, or does not answer."""

    answer: bool | ApiError = True
    asked: int = 0
    lost: list[bool] = field(default_factory=list)

    def read(self) -> bool:
        self.asked += 1
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    def recall(self) -> bool:
        return self.answer is not False

    def note_lost(self) -> None:
        self.answer = False


class Passes:
    """Passes over a machine of one H100."""

    def __init__(self, setting: MigSetting = MigSetting.AUTO) -> None:
        self.server = Server()
        self.claims = MigClaims()
        self.offers = MigOffers(
            setting=setting,
            counters=self.server,
            read_claims=lambda: self.claims,
            read_inventory=Inventory,
        )

    def see(self, reading: GpuReading) -> tuple[bool, int, bool]:
        """Whether the pass is settled, how many MIG devices there are, and whether claims make them."""
        offered = self.offers.note_pass(topology(reading))
        return offered.is_settled, len(offered.offers[0].partitions), offered.offers[0].is_dynamic


def topology(reading: GpuReading) -> Topology:
    return build_topology(machine([reading]))


def test_what_is_there_at_the_start_is_somebodys() -> None:
    """Before the first call no claim is under way."""
    assert Passes().see(hopper(0, mig(H, THREE))) == (True, 1, False)


def test_an_instance_that_seems_to_be_nobodys_counts_when_it_is_seen_twice() -> None:
    passes = Passes()
    assert passes.see(hopper(0, mig(H))) == (True, 25, True)
    assert passes.see(hopper(0, mig(H, THREE))) == (False, 25, True)
    assert passes.see(hopper(0, mig(H, THREE))) == (True, 1, False)


def test_a_claim_that_ended_while_the_machine_was_read_changes_nothing() -> None:
    """Its instance was read, and its record was gone a moment later."""
    passes = Passes()
    passes.see(hopper(0, mig(H)))
    assert passes.see(hopper(0, mig(H, THREE))) == (False, 25, True)
    assert passes.see(hopper(0, mig(H))) == (True, 25, True)


def test_a_gpu_between_two_claims_stays_divided() -> None:
    """MIG mode is on for nobody for a moment."""
    passes = Passes()
    passes.claims = OURS
    passes.see(hopper(0, mig(H, THREE)))
    passes.claims = MigClaims()
    assert passes.see(hopper(0, mig(H, is_enabled=True))) == (False, 25, True)
    assert passes.see(hopper(0, mig(H))) == (True, 25, True)


def test_what_could_not_be_read_is_looked_for_again_soon() -> None:
    reading = hopper(0, replace(mig(H), fault="NVML nvmlDeviceGetGpuInstances: UNKNOWN (999)"))
    assert Passes().see(reading)[0] is False


def test_an_instance_that_went_with_its_claim_is_nobody_elses_while_the_gpu_cannot_be_read() -> None:
    """A pass that could not read it says what the one before said (``MigMemory``): the place stays on offer."""
    passes = Passes()
    passes.claims = OURS
    passes.see(hopper(0, mig(H, THREE)))
    passes.claims = MigClaims()
    recalled = hopper(0, replace(mig(H, THREE), fault=FAULT))
    assert [passes.see(recalled) for _ in range(3)] == [(False, 25, True)] * 3
    assert passes.see(hopper(0, mig(H))) == (True, 25, True)


def test_static_devices_stay_while_the_gpu_cannot_be_read_and_a_reason_is_said() -> None:
    passes = Passes()
    passes.see(hopper(0, mig(H, THREE)))
    offered = passes.offers.note_pass(topology(hopper(0, replace(mig(H, THREE), fault=FAULT))))
    (offer,) = offered.offers
    assert (len(offer.partitions), offer.is_dynamic) == (1, False)
    assert offer.note == f"{offer.gpu.name}: MIG cannot be read now, and what is known of it counts until it can: {FAULT}"


def test_a_gpu_that_never_told_is_taken_for_one_without_mig_and_looked_at_again_soon() -> None:
    silent = MigReading(is_enabled=False, is_enabled_after_reset=False, is_mode_known=False, fault=FAULT)
    offered = Passes().offers.note_pass(topology(hopper(0, silent)))
    (offer,) = offered.offers
    assert (offer.is_whole, offer.partitions, offered.is_settled) == (True, (), False)
    assert "it is taken for a GPU without MIG" in offer.note


def test_prepares_need_no_api_server() -> None:
    passes = Passes()
    passes.server.answer = ApiUnreachable("GET /version", 0, "connection refused")
    assert passes.see(hopper(0, mig(H))) == (True, 25, True)
    assert passes.server.asked == 0


def test_publishing_does() -> None:
    passes = Passes()
    passes.server.answer = ApiUnreachable("GET /version", 0, "connection refused")
    passes.see(hopper(0, mig(H)))
    with pytest.raises(ApiUnreachable):
        passes.offers.build(topology(hopper(0, mig(H))))


@pytest.mark.parametrize(
    ("setting", "reading"),
    [(MigSetting.STATIC, hopper(0, mig(H))), (MigSetting.OFF, hopper(0, mig(H))), (MigSetting.AUTO, gpu(0))],
    ids=["static", "off", "no MIG"],
)
def test_it_is_not_asked_where_nothing_depends_on_it(setting: MigSetting, reading: GpuReading) -> None:
    passes = Passes(setting)
    passes.see(reading)
    passes.offers.build(topology(reading))
    assert passes.server.asked == 0


def test_a_server_that_drops_counters_is_not_given_them_again() -> None:
    passes = Passes()
    reading = hopper(0, mig(H))
    passes.see(reading)
    assert passes.offers.build(topology(reading)).offers[0].is_dynamic
    draws = CounterConsumption(counter_set="gpu", counters={"memory-slice-0": Counter(value="1")})
    asked, kept = Device(name="part", consumes_counters=(draws,)), Device(name="part")
    assert passes.offers.note_stored([asked], [asked])
    assert not passes.offers.note_stored([asked], [kept])
    assert not passes.offers.build(topology(reading)).offers[0].is_dynamic
