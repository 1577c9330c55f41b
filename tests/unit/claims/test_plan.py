"""What a claim comes to on this node, and when it is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api import resource_v1
from driver.api.gpu_config import NVIDIA_VERSION, OWN_VERSION, GpuConfig
from driver.claims.allocation import hash_allocation
from driver.claims.plan import (
    Holder,
    PlannedDevice,
    PlanningNode,
    list_exclusive_gpus,
    plan_claim,
    validate_exclusive,
)
from driver.errors import (
    ClaimError,
    ClaimNotAllocated,
    ClaimReplaced,
    ConfigInvalid,
    DeviceInUse,
    ForeignPool,
    UnknownDevice,
)
from driver.names import CDIDeviceID, DeviceName, GpuUUID, PoolName
from tests.fakes.claims import DRIVER, POOL, claim, config, device, gpu, ref, result, uid

NODE = PlanningNode(driver=DRIVER, pool=POOL, devices={device(n): gpu(n) for n in range(8)})
GPU_CONFIG = {"apiVersion": NVIDIA_VERSION, "kind": "GpuConfig"}
MIG_CONFIG = {"apiVersion": NVIDIA_VERSION, "kind": "MigDeviceConfig"}
POLICY = {"apiVersion": OWN_VERSION, "kind": "TopologyPolicy", "mode": "required"}
SHARE = "11111111-1111-4111-8111-111111111111"


def planned(position: int, request: str = "gpus", **changes: object) -> PlannedDevice:
    share = f"-{changes['share_id']}" if "share_id" in changes else ""
    made = {
        "request": request,
        "pool": POOL,
        "device": device(position),
        "uuid": GpuUUID(f"GPU-00000000-0000-0000-0000-{position:012x}"),
        "cdi_device_id": CDIDeviceID(f"k8s.gpu.nvidia.com/claim={uid(1)}-{device(position)}{share}"),
        "config": GpuConfig(),
        **changes,
    }
    return PlannedDevice(**made)  # type: ignore[arg-type]


def test_a_plan_has_the_devices_in_the_order_of_the_allocation() -> None:
    plan = plan_claim(claim(ref(1), [result(5, "b"), result(0, "a/tight")]), ref(1), NODE)
    assert plan.devices == (planned(5, "b"), planned(0, "a/tight"))
    assert plan.ref == ref(1)
    assert list_exclusive_gpus(plan) == (device(0), device(5))


def test_b15_results_of_other_drivers_are_skipped() -> None:
    """B15: one claim may be for a GPU and a network card; the card's device and pool are none of our business."""
    other = result(0, "nic", driver="dra.net", pool="elsewhere", device="nic-7")
    plan = plan_claim(claim(ref(1), [other, result(0)]), ref(1), NODE)
    assert plan.devices == (planned(0),)


def test_b15_a_claim_without_results_for_us_is_an_empty_plan() -> None:
    assert plan_claim(claim(ref(1), [result(0, driver="dra.net")]), ref(1), NODE).devices == ()


def test_the_name_of_the_pods_claim_is_taken_from_the_template_claim() -> None:
    made = claim(ref(1), [result(0)], annotations={"resource.kubernetes.io/pod-claim-name": "gpu"})
    assert plan_claim(made, ref(1), NODE).pod_claim_name == "gpu"


@pytest.mark.parametrize(
    ("made", "error", "says"),
    [
        pytest.param(
            claim(ref(2), [result(0)]), ClaimReplaced, "has uid '00000000-0000-4000-8000-000000000002' now", id="wrong uid"
        ),
        pytest.param(
            resource_v1.ResourceClaim(metadata=claim(ref(1), []).metadata),
            ClaimNotAllocated,
            "has no allocation",
            id="no allocation",
        ),
        pytest.param(
            claim(ref(1), [result(0, pool="node-b")]),
            ForeignPool,
            "lies in pool 'node-b', and this node serves 'node-a'",
            id="pool of another node (R6)",
        ),
        pytest.param(claim(ref(1), [result(9)]), UnknownDevice, "has no device 'gpu-0000-19-00-0' now", id="unknown device"),
        pytest.param(
            claim(ref(1), [result(0, device="../../etc")]), UnknownDevice, "has no device '../../etc'", id="a path for a device"
        ),
        pytest.param(
            claim(ref(1), [result(0), result(0, "b")]), ClaimError, "is in the allocation twice", id="one device twice"
        ),
        pytest.param(claim(ref(1), [result(0)] * 33), ClaimError, "33 results", id="too many results"),
        pytest.param(claim(ref(1), [result(0)], [config({})] * 65), ClaimError, "65 configs", id="too many configs"),
        pytest.param(claim(ref(1), [result(0, share_id="../x")]), ClaimError, "share id '../x'", id="a path for a share id"),
    ],
)
def test_a_claim_that_cannot_be_prepared_here_is_refused_by_name(
    made: resource_v1.ResourceClaim, error: type[ClaimError], says: str
) -> None:
    with pytest.raises(error) as caught:
        plan_claim(made, ref(1), NODE)
    assert says in str(caught.value)
    assert str(ref(1)) in str(caught.value) or "claim 00000000" in str(caught.value)


def test_long_names_from_outside_are_cut_in_messages() -> None:
    with pytest.raises(UnknownDevice) as caught:
        plan_claim(claim(ref(1), [result(0, device="x" * 100_000)]), ref(1), NODE)
    assert len(str(caught.value)) < 500


# --- configs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "configs",
    [
        [config(GPU_CONFIG)],
        [config(GPU_CONFIG, "FromClass"), config(GPU_CONFIG, "FromClaim", ["gpus"])],
        [config(POLICY)],
        [config(MIG_CONFIG)],
        [config(b"[[[", driver="dra.net")],
        [resource_v1.AllocatedConfig(source="FromClass")],
    ],
    ids=["GPU", "class and claim", "policy", "unnamed and of another kind", "malformed, of another driver", "no opaque part"],
)
def test_configs_that_fit_change_nothing(configs: list[resource_v1.AllocatedConfig]) -> None:
    assert plan_claim(claim(ref(1), [result(0)], configs), ref(1), NODE).devices == (planned(0),)


def test_b67_faults_of_all_configs_are_told_with_where_they_stand() -> None:
    configs = [
        config({"kind": "GpuConfig"}, "FromClass"),
        config(b"{", driver="dra.net"),
        config({**GPU_CONFIG, "sharing": {}}),
    ]
    with pytest.raises(ConfigInvalid) as caught:
        plan_claim(claim(ref(1), [result(0)], configs), ref(1), NODE)
    assert [fault.split(":")[0] for fault in caught.value.faults] == [
        "status.allocation.devices.config[0].opaque.parameters (FromClass)",
        "status.allocation.devices.config[2].opaque.parameters (FromClaim)",
    ]


def test_a_malformed_config_is_refused_even_where_it_applies_to_nothing() -> None:
    with pytest.raises(ConfigInvalid):
        plan_claim(claim(ref(1), [result(0)], [config(b"{", requests=["elsewhere"])]), ref(1), NODE)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"config\[0\].source: 'FromMoon' is not one of FromClass, FromClaim"):
        plan_claim(claim(ref(1), [result(0)], [config(GPU_CONFIG, "FromMoon")]), ref(1), NODE)


def test_a_config_that_names_a_request_must_be_of_its_kind() -> None:
    with pytest.raises(ConfigInvalid, match="MigDeviceConfig is for another kind of device"):
        plan_claim(claim(ref(1), [result(0, "a/tight")], [config(MIG_CONFIG, requests=["a"])]), ref(1), NODE)


# --- admin access ----------------------------------------------------------------------------------------------------


def test_b66_a_monitor_needs_no_lock_and_may_see_a_device_twice() -> None:
    plan = plan_claim(claim(ref(1), [result(0, admin_access=True), result(0, "b", admin_access=True)]), ref(1), NODE)
    assert plan.devices == (planned(0, is_admin=True), planned(0, "b", is_admin=True))
    assert list_exclusive_gpus(plan) == ()


@pytest.mark.parametrize("requests", [[], ["gpus"]], ids=["for all", "by name"])
def test_b66_admin_access_with_a_config_of_the_claim_is_refused(requests: list[str]) -> None:
    with pytest.raises(ConfigInvalid, match="request 'gpus' has adminAccess, which takes no config"):
        plan_claim(claim(ref(1), [result(0, admin_access=True)], [config(GPU_CONFIG, requests=requests)]), ref(1), NODE)


def test_b66_a_config_of_the_class_does_not_reach_admin_access() -> None:
    """The class is for workloads; its defaults must not keep monitors out."""
    made = claim(ref(1), [result(0, admin_access=True)], [config(GPU_CONFIG, "FromClass"), config(POLICY)])
    assert plan_claim(made, ref(1), NODE).devices == (planned(0, is_admin=True),)


# --- exclusivity -----------------------------------------------------------------------------------------------------


def test_b07_a_device_that_another_claim_holds_is_refused_by_its_holder() -> None:
    plan = plan_claim(claim(ref(1), [result(0), result(1)]), ref(1), NODE)
    with pytest.raises(DeviceInUse, match=r"device gpu-0000-11-00-0 is held by claim default/x \(PrepareStarted\)"):
        validate_exclusive(plan, {device(1): (Holder(who="claim default/x (PrepareStarted)"),)})


@pytest.mark.parametrize(
    ("mine", "theirs", "is_refused"),
    [(SHARE, SHARE, False), (SHARE, None, True), (None, SHARE, True), (None, None, True)],
    ids=["both share", "only mine", "only theirs", "neither"],
)
def test_only_two_shares_stand_side_by_side(mine: str | None, theirs: str | None, is_refused: bool) -> None:
    plan = plan_claim(claim(ref(1), [result(0, share_id=mine)]), ref(1), NODE)
    holders = {device(0): (Holder(who="x", device=device(0), share_id=theirs),)}
    if is_refused:
        with pytest.raises(DeviceInUse):
            validate_exclusive(plan, holders)
    else:
        validate_exclusive(plan, holders)


def test_admin_access_is_let_through() -> None:
    plan = plan_claim(claim(ref(1), [result(0, admin_access=True)]), ref(1), NODE)
    validate_exclusive(plan, {device(0): (Holder(who="x"),)})


def test_two_shares_of_one_device_in_one_claim_have_ids_of_their_own() -> None:
    """R25: one CDI name for two would make the claim's file invalid."""
    other = SHARE.replace("1", "2")
    plan = plan_claim(claim(ref(1), [result(0, share_id=SHARE), result(0, share_id=other)]), ref(1), NODE)
    assert plan.devices == (planned(0, share_id=SHARE), planned(0, share_id=other))


# --- the hash of the allocation --------------------------------------------------------------------------------------


def hashed(results: list[resource_v1.AllocationResult], configs: list[resource_v1.AllocatedConfig] | None = None) -> str:
    return hash_allocation(resource_v1.DeviceAllocation(results=tuple(results), config=tuple(configs or [])), DRIVER)


def test_another_allocation_has_another_hash() -> None:
    ours = [
        hashed([result(0)]),
        hashed([result(1)]),
        hashed([result(0, "b")]),
        hashed([result(0), result(1)]),
        hashed([result(1), result(0)]),
        hashed([result(0, admin_access=True)]),
        hashed([result(0)], [config(GPU_CONFIG)]),
        hashed([result(0)], [config(POLICY)]),
        hashed([result(0)], [config(GPU_CONFIG, "FromClass")]),
        hashed([result(0)], [config(GPU_CONFIG, requests=["gpus"])]),
        hashed([result(0)], [config(b"{")]),
    ]
    assert len(set(ours)) == len(ours)


def test_what_says_the_same_to_us_has_the_same_hash() -> None:
    assert hashed([result(0)]) == hashed([result(9, driver="dra.net"), result(0)], [config({"a": 1}, driver="dra.net")])
    assert hashed([result(0)], [config(b'{"a":1,"b":2}')]) == hashed([result(0)], [config(b'{ "b": 2, "a": 1 }')])


@given(
    st.lists(
        st.builds(
            resource_v1.AllocationResult,
            request=st.text(max_size=8),
            driver=st.sampled_from([DRIVER, "dra.net"]),
            pool=st.sampled_from([POOL, "node-b", ""]),
            device=st.sampled_from([device(0), device(1), "gpu", "../x", "\x00"]) | st.text(max_size=8),
            admin_access=st.sampled_from([None, True, False]),
            share_id=st.none() | st.text(max_size=4) | st.just(SHARE),
        ),
        max_size=5,
    ),
    st.lists(
        st.builds(
            resource_v1.AllocatedConfig,
            source=st.sampled_from(["FromClass", "FromClaim", "x"]),
            requests=st.lists(st.text(max_size=3), max_size=2).map(tuple),
            opaque=st.builds(
                resource_v1.OpaqueConfig,
                driver=st.sampled_from([DRIVER, "x"]),
                parameters=st.binary(max_size=20).map(msgspec.Raw),
            ),
        ),
        max_size=2,
    ),
)
@settings(max_examples=200, deadline=None)
def test_any_claim_ends_in_a_plan_of_known_devices_or_a_claim_error(
    results: list[resource_v1.AllocationResult], configs: list[resource_v1.AllocatedConfig]
) -> None:
    try:
        plan = plan_claim(claim(ref(1), results, configs), ref(1), NODE)
    except ClaimError:
        return
    assert {each.device for each in plan.devices} <= set(NODE.devices)
    assert len({(each.device, each.share_id) for each in plan.devices if not each.is_admin}) == sum(
        not each.is_admin for each in plan.devices
    )


def test_a_node_without_devices_knows_none() -> None:
    empty = PlanningNode(driver=DRIVER, pool=PoolName(POOL), devices={})
    with pytest.raises(UnknownDevice, match="it has 0 devices"):
        plan_claim(claim(ref(1), [result(0)]), ref(1), empty)
    assert DeviceName(device(0)) not in empty.devices
