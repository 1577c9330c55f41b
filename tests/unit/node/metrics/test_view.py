"""The figures that follow from what is there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from driver.claims.mig_record import RecordedMig
from driver.claims.record import ClaimRecord, RecordedDevice, State
from driver.health.model import Health, Kind, Trouble
from driver.metrics.definition import LookedUp
from driver.names import DeviceName, PoolName
from driver.node.metrics.view import DEFINITIONS, MOST_HOLDERS, NodeView, build_samples, type_of
from driver.nvml.figures import GpuFigures
from driver.plugin.health import DeviceHealth
from driver.plugin.health import Health as KubeletHealth
from driver.plugin.registration import Phase, RegistrationStatus
from driver.resourceslice.publish_reports import PublishState, PublishStatus
from driver.topology.build import build_topology
from driver.topology.model import Gpu
from tests.fakes import claims as fakes
from tests.unit.node import readings
from tests.unit.node.metrics.page import read_page

GPUS: dict[DeviceName, Gpu] = {gpu.name: gpu for gpu in build_topology(readings.machine(0, 1, 2)).gpus}
NAMES = list(GPUS)
MIG = RecordedMig(gpu=NAMES[0], gpu_uuid="GPU-1", profile_id=19, start=0, size=1)


def page_of(**parts: Any) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(LookedUp(DEFINITIONS, lambda: build_samples(NodeView(**parts))))
    return read_page(registry)


def lines(name: str, **parts: Any) -> dict[str, float]:
    """Those of one figure, without its name."""
    return {key.removeprefix(name): value for key, value in page_of(**parts).items() if key.partition("{")[0] == name}


def held(device: str, **fields: Any) -> RecordedDevice:
    return RecordedDevice(request="gpus", pool="node-a", device=device, uuid="GPU-1", cdi_device_ids=("a/b=c",), **fields)


def record(number: int, *devices: RecordedDevice, state: State = State.PREPARE_COMPLETED) -> ClaimRecord:
    of = fakes.ref(number)
    return ClaimRecord(state=state, namespace=of.namespace, name=of.name, uid=of.uid, devices=devices)


def test_before_anything_is_known_nothing_is_claimed() -> None:
    page = page_of()
    assert (page["gpu_dra_node_registered"], page["gpu_dra_node_machine_read"], page["gpu_dra_node_slices"]) == (0, 0, 0)
    assert page['gpu_dra_node_publish_state{state="waiting"}'] == 1
    assert not [name for name in page if name.startswith("gpu_dra_gpu_") and "left_out" not in name]


def test_registration_and_publishing() -> None:
    page = page_of(
        registration=RegistrationStatus(phase=Phase.REGISTERED, count=3),
        publish=PublishStatus(state=PublishState.FAILING, slices=2),
        is_read=True,
        has_device_plugin=True,
    )
    assert page["gpu_dra_node_device_plugin"] == 1
    assert (page["gpu_dra_node_registered"], page["gpu_dra_node_registrations_total"]) == (1, 3)
    assert (page["gpu_dra_node_slices"], page["gpu_dra_node_machine_read"]) == (2, 1)
    states = {state.value: page[f'gpu_dra_node_publish_state{{state="{state.value}"}}'] for state in PublishState}
    assert states == {"waiting": 0, "published": 0, "failing": 1, "yielded": 0, "refused": 0}


@pytest.mark.parametrize("phase", [Phase.NEVER_ASKED, Phase.ASKED, Phase.REFUSED])
def test_less_than_registered_is_not_registered(phase: Phase) -> None:
    assert page_of(registration=RegistrationStatus(phase=phase))["gpu_dra_node_registered"] == 0


def test_devices_by_type() -> None:
    devices = lines("gpu_dra_node_allocatable_devices", devices=dict(GPUS))
    assert devices == {'{type="gpu"}': 3, '{type="mig"}': 0}


def test_islands_by_their_first_gpu() -> None:
    assert lines("gpu_dra_node_island_gpus", cards=GPUS) == {f'{{island="{name}"}}': 1 for name in NAMES}


def test_gpus_and_their_figures() -> None:
    uuid = GPUS[NAMES[1]].reading.uuid
    figures = GpuFigures(
        uuid=uuid,
        utilization_percent=93,
        memory_used_bytes=1 << 30,
        memory_total_bytes=80 << 30,
        temperature_celsius=66,
        power_mw=610_500,
    )
    page = page_of(cards=GPUS, figures=(figures,))
    of_second = f'{{gpu="{NAMES[1]}"}}'
    assert page[f"gpu_dra_gpu_utilization_ratio{of_second}"] == 0.93
    assert page[f"gpu_dra_gpu_memory_used_bytes{of_second}"] == 1 << 30
    assert page[f"gpu_dra_gpu_memory_total_bytes{of_second}"] == 80 << 30
    assert page[f"gpu_dra_gpu_temperature_celsius{of_second}"] == 66
    assert page[f"gpu_dra_gpu_power_watts{of_second}"] == 610.5
    assert page[f'gpu_dra_gpu_info{{gpu="{NAMES[1]}",product="NVIDIA T4",uuid="{uuid}"}}'] == 1
    assert f'gpu_dra_gpu_power_watts{{gpu="{NAMES[0]}"}}' not in page, "a GPU that did not answer has no figures"


def test_a_figure_that_is_not_told_is_absent_and_never_zero() -> None:
    figures = GpuFigures(uuid=GPUS[NAMES[0]].reading.uuid, power_mw=1000)
    page = page_of(cards=GPUS, figures=(figures,))
    told = {name.partition("{")[0] for name in page if f'gpu="{NAMES[0]}"' in name}
    assert told == {"gpu_dra_gpu_info", "gpu_dra_gpu_active_nvlinks", "gpu_dra_gpu_power_watts"}


def test_figures_of_a_card_that_is_gone_are_not_served() -> None:
    page = page_of(cards=GPUS, figures=(GpuFigures(uuid=readings.gpu(9).uuid, power_mw=1),))
    assert not [name for name in page if name.startswith("gpu_dra_gpu_power")]


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        pytest.param(held(NAMES[0]), "gpu", id="a whole GPU"),
        pytest.param(held(f"{NAMES[0]}-mig-1g-10gb-p19-0", mig=MIG), "mig", id="a MIG device"),
        pytest.param(held(NAMES[0], share_id=fakes.uid(7)), "share", id="a share of its memory"),
        pytest.param(held(NAMES[0], is_admin=True), "admin", id="one that only looks on"),
    ],
)
def test_who_holds_a_gpu(device: RecordedDevice, kind: str) -> None:
    parts: dict[str, Any] = {"records": (record(1, device),), "pods_of": lambda _uid: ("job-0",)}
    assert type_of(device) == kind
    assert lines("gpu_dra_gpu_holder", **parts) == {
        f'{{claim="claim-1",device="{device.device}",gpu="{NAMES[0]}",namespace="default",pod="job-0",type="{kind}"}}': 1
    }
    assert lines("gpu_dra_node_prepared_devices", **parts)[f'{{type="{kind}"}}'] == 1


def test_each_pod_of_a_claim_has_a_line_and_a_claim_without_a_known_pod_one_too() -> None:
    records = (record(1, held(NAMES[0])), record(2, held(NAMES[1])))
    seen = lines("gpu_dra_gpu_holder", records=records, pods_of={fakes.uid(1): ("a", "b"), fakes.uid(2): ()}.__getitem__)
    assert sorted((line.split('claim="')[1].split('"')[0], line.split('pod="')[1].split('"')[0]) for line in seen) == [
        ("claim-1", "a"),
        ("claim-1", "b"),
        ("claim-2", ""),
    ]


def test_claims_by_how_far_they_are() -> None:
    records = (
        record(1, held(NAMES[0])),
        record(2, held(NAMES[1]), state=State.UNPREPARE_STARTED),
        record(3, held(NAMES[2]), state=State.PREPARE_STARTED),
        record(4, held(NAMES[2])),
    )
    assert lines("gpu_dra_node_claims", records=records) == {
        '{state="starting"}': 1,
        '{state="prepared"}': 2,
        '{state="ending"}': 1,
    }


def test_holders_are_bounded_and_the_rest_is_counted() -> None:
    records = tuple(record(number, held(NAMES[0], share_id=fakes.uid(number))) for number in range(MOST_HOLDERS + 5))
    page = page_of(records=records)
    assert len([name for name in page if name.startswith("gpu_dra_gpu_holder{")]) == MOST_HOLDERS
    assert page["gpu_dra_gpu_holders_left_out"] == 5


def trouble(**fields: Any) -> Trouble:
    told: dict[str, Any] = {"device": NAMES[0], "kind": Kind.XID, "value": "79", "since": datetime(2026, 12, 2, tzinfo=UTC)}
    return Trouble(message="fell off the bus", advice="reboot", **(told | fields))


def test_xids_by_gpu_and_number() -> None:
    health = Health(counts={(NAMES[1], 13): 4, (NAMES[0], 79): 1})
    assert lines("gpu_dra_gpu_xids_total", health=health) == {
        f'{{gpu="{NAMES[0]}",xid="79"}}': 1,
        f'{{gpu="{NAMES[1]}",xid="13"}}': 4,
    }


def test_troubles_by_kind_and_whether_they_only_warn() -> None:
    health = Health(troubles=(trouble(), trouble(kind=Kind.THERMAL, value="", is_warning=True)))
    assert lines("gpu_dra_gpu_trouble", health=health) == {
        f'{{gpu="{NAMES[0]}",kind="xid",severity="fault",value="79"}}': 1,
        f'{{gpu="{NAMES[0]}",kind="thermal",severity="warning",value=""}}': 1,
    }


def test_a_trouble_says_since_when() -> None:
    """The earliest of several of a kind on one GPU."""
    later = trouble(since=datetime(2026, 12, 2, 6, tzinfo=UTC))
    since = lines("gpu_dra_gpu_trouble_since_timestamp_seconds", health=Health(troubles=(later, trouble())))
    began_s = datetime(2026, 12, 2, tzinfo=UTC).timestamp()
    assert since == {f'{{gpu="{NAMES[0]}",kind="xid",severity="fault",value="79"}}': began_s}


def test_a_gpu_that_fell_off_the_bus_is_named_with_its_uuid() -> None:
    """By what it said last: without, a dashboard has a PCI address alone for the card that has to be pulled."""
    gone = GPUS[NAMES[1]]
    told = lines("gpu_dra_gpu_info", cards={NAMES[0]: GPUS[NAMES[0]]}, lost={NAMES[1]: gone})
    assert told == lines("gpu_dra_gpu_info", cards={name: GPUS[name] for name in NAMES[:2]})
    assert lines("gpu_dra_gpu_active_nvlinks", lost={NAMES[1]: gone}) == {}, "its figures are those of nobody"


def test_one_trouble_of_two_instances_is_one_line() -> None:
    """The same series twice would make the scraper refuse the page."""
    assert len(lines("gpu_dra_gpu_trouble", health=Health(troubles=(trouble(), trouble())))) == 1


def test_devices_that_the_kubelet_is_told_are_unhealthy() -> None:
    kubelet = tuple(
        DeviceHealth(pool=PoolName("node-a"), device=name, health=health, last_updated_s=0)
        for name, health in zip(NAMES, (KubeletHealth.HEALTHY, KubeletHealth.UNHEALTHY, KubeletHealth.UNKNOWN), strict=True)
    )
    assert page_of(kubelet=kubelet)["gpu_dra_node_unhealthy_devices"] == 1


def test_names_say_their_unit_and_are_told_apart() -> None:
    names = [definition.name for definition in DEFINITIONS]
    assert len(set(names)) == len(names)
    assert all(name.startswith(("gpu_dra_node_", "gpu_dra_gpu_")) for name in names)
    assert not [name for name in names if name.endswith("_total")], "the page adds it to counters"
