"""A call's answers: one for each uid that was asked, whatever happens below."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from driver.claims.model import CallContext, ClaimRef, PrepareAnswers, PreparedDevice
from driver.errors import ApiUnreachable, ClaimError, ConfigInvalid, DriverError, NvmlError
from driver.names import CDIDeviceID, ClaimUID, DeviceName, PoolName
from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1beta1 import api_pb2 as v1beta1
from driver.plugin.dra import DraCalls, DraV1, DraV1Beta1
from tests.fakes.claim_service import ScriptedClaimService, build_devices, make_claim, make_uid
from tests.fakes.grpc_context import FakeContext

SHARED = PreparedDevice(
    requests=("a", "b"),
    pool=PoolName("node-a"),
    device=DeviceName("gpu-0"),
    cdi_device_ids=(CDIDeviceID("v/c=1"), CDIDeviceID("v/c=2")),
    share_id="11111111-2222-3333-4444-555555555555",
)


def wire(*claims: ClaimRef) -> list[v1.Claim]:
    return [v1.Claim(namespace=each.namespace, name=each.name, uid=each.uid) for each in claims]


def prepare_v1(service: ScriptedClaimService, *claims: v1.Claim, context: FakeContext | None = None) -> dict[str, str]:
    """The error of each entry, empty for success."""
    request = v1.NodePrepareResourcesRequest(claims=claims)
    response = DraV1(DraCalls(service)).NodePrepareResources(request, (context or FakeContext()).as_grpc())
    return {uid: entry.error for uid, entry in response.claims.items()}


def test_one_call_carries_success_and_faults_side_by_side() -> None:
    """B59: good, bad config, API trouble, and a uid that is none."""
    config_fault = ConfigInvalid("config of class gpu", ["spec.sharing: not built yet"])
    api_fault = ApiUnreachable("GET resourceclaims/claim-3", 0, "connection refused")
    service = ScriptedClaimService(answers={make_uid(2): config_fault, make_uid(3): api_fault})
    claims = [*wire(make_claim(1), make_claim(2), make_claim(3)), v1.Claim(namespace="ns", name="n", uid="odd")]
    assert prepare_v1(service, *claims) == {
        make_uid(1): "",
        make_uid(2): "config of class gpu: spec.sharing: not built yet",
        make_uid(3): "GET resourceclaims/claim-3: connection refused",
        "odd": "claim uid 'odd': not 36 characters of lower-case hex and dashes",
    }
    assert service.prepared == {make_uid(1)}


def test_a_v1_answer_has_all_of_a_device() -> None:
    service = ScriptedClaimService(answers={make_uid(1): (SHARED,)})
    request = v1.NodePrepareResourcesRequest(claims=wire(make_claim(1)))
    response = DraV1(DraCalls(service)).NodePrepareResources(request, FakeContext().as_grpc())
    assert response == v1.NodePrepareResourcesResponse(
        claims={
            make_uid(1): v1.NodePrepareResourceResponse(
                devices=[
                    v1.Device(
                        request_names=["a", "b"],
                        pool_name="node-a",
                        device_name="gpu-0",
                        cdi_device_ids=["v/c=1", "v/c=2"],
                        share_id="11111111-2222-3333-4444-555555555555",
                    )
                ]
            )
        }
    )


def test_a_device_that_is_not_shared_has_no_share_id_on_the_wire() -> None:
    request = v1.NodePrepareResourcesRequest(claims=wire(make_claim(1)))
    response = DraV1(DraCalls(ScriptedClaimService())).NodePrepareResources(request, FakeContext().as_grpc())
    assert not response.claims[make_uid(1)].devices[0].HasField("share_id")


def test_v1beta1_answers_the_same_without_share_id() -> None:
    service = ScriptedClaimService(answers={make_uid(1): (SHARED,)})
    request = v1beta1.NodePrepareResourcesRequest(claims=[v1beta1.Claim(namespace="default", name="claim-1", uid=make_uid(1))])
    response = DraV1Beta1(DraCalls(service)).NodePrepareResources(request, FakeContext().as_grpc())
    device = v1beta1.Device(
        request_names=["a", "b"], pool_name="node-a", device_name="gpu-0", cdi_device_ids=["v/c=1", "v/c=2"]
    )
    assert response == v1beta1.NodePrepareResourcesResponse(
        claims={make_uid(1): v1beta1.NodePrepareResourceResponse(devices=[device])}
    )


def test_unprepare_has_an_entry_for_each_claim_in_both_versions() -> None:
    failing = ScriptedClaimService(answers={make_uid(2): ClaimError("its record is set aside")})
    v1_request = v1.NodeUnprepareResourcesRequest(claims=wire(make_claim(1), make_claim(2)))
    v1_response = DraV1(DraCalls(failing)).NodeUnprepareResources(v1_request, FakeContext().as_grpc())
    assert {uid: entry.error for uid, entry in v1_response.claims.items()} == {
        make_uid(1): "",
        make_uid(2): "its record is set aside",
    }
    beta_request = v1beta1.NodeUnprepareResourcesRequest.FromString(v1_request.SerializeToString())
    beta_response = DraV1Beta1(DraCalls(failing)).NodeUnprepareResources(beta_request, FakeContext().as_grpc())
    assert beta_response.SerializeToString(deterministic=True) == v1_response.SerializeToString(deterministic=True)


def test_an_empty_call_is_answered_without_asking_anybody() -> None:
    service = ScriptedClaimService()
    assert prepare_v1(service) == {}
    assert service.asked == []


def test_a_claim_that_is_asked_twice_is_prepared_once() -> None:
    service = ScriptedClaimService()
    assert prepare_v1(service, *wire(make_claim(1), make_claim(1))) == {make_uid(1): ""}
    assert service.asked == [(make_claim(1),)]


def raises(err: Exception) -> Callable[[Sequence[ClaimRef], CallContext], PrepareAnswers]:
    def prepare(claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        raise err

    return prepare


@pytest.mark.parametrize(
    ("err", "text"),
    [
        (ApiUnreachable("GET claim", 0, "timed out"), "GET claim: timed out"),
        (NvmlError("nvmlInit_v2", 9, "DRIVER_NOT_LOADED"), "NVML nvmlInit_v2: DRIVER_NOT_LOADED (9)"),
        (ZeroDivisionError("division by zero"), "division by zero"),
        (RecursionError(), "RecursionError"),
    ],
    ids=["API server", "NVML", "a bug", "a bug without words"],
)
def test_a_call_that_fails_as_a_whole_is_the_text_of_each_claim(err: Exception, text: str) -> None:
    service = ScriptedClaimService(prepare_with=raises(err))
    assert prepare_v1(service, *wire(make_claim(1), make_claim(2))) == {make_uid(1): text, make_uid(2): text}


def test_a_claim_that_the_service_forgets_still_has_an_entry_and_one_that_nobody_asked_has_none() -> None:
    """The kubelet fails a pod for either (B59)."""
    service = ScriptedClaimService(prepare_with=lambda *_: {make_uid(9): build_devices(make_uid(9))})
    answer = prepare_v1(service, *wire(make_claim(1)))
    assert set(answer) == {make_uid(1)}
    assert "fault of the driver" in answer[make_uid(1)]


def test_an_error_without_words_is_not_success() -> None:
    assert prepare_v1(ScriptedClaimService(answers={make_uid(1): DriverError("")}), *wire(make_claim(1))) == {
        make_uid(1): "DriverError"
    }


def test_a_device_that_cannot_be_encoded_fails_its_own_claim_only() -> None:
    """A name out of a file of the host may not be UTF-8."""
    odd = PreparedDevice(requests=(), pool=PoolName("p"), device=DeviceName("\udcff"), cdi_device_ids=())
    answer = prepare_v1(ScriptedClaimService(answers={make_uid(1): (odd,)}), *wire(make_claim(1), make_claim(2)))
    assert answer[make_uid(2)] == ""
    assert answer[make_uid(1)].startswith("the driver's answer cannot be sent: ")


def test_a_call_that_was_over_before_its_turn_reaches_nobody() -> None:
    """Calls wait for a worker; one that its caller gave up meanwhile must take no effect (R8)."""
    service = ScriptedClaimService()
    answer = prepare_v1(service, *wire(make_claim(1)), context=FakeContext(is_active=False))
    assert "ask again" in answer[make_uid(1)]
    assert service.asked == []


@pytest.mark.parametrize(("remaining_s", "work_s"), [(45.0, 42.0), (None, 42.0), (10.0, 7.0)])
def test_the_claim_service_knows_the_deadline(remaining_s: float | None, work_s: float) -> None:
    service = ScriptedClaimService()
    prepare_v1(service, *wire(make_claim(1)), context=FakeContext(remaining_s=remaining_s))
    assert service.deadlines_s[0] == pytest.approx(work_s, abs=2)


def test_calls_in_flight_are_counted_and_waited_for() -> None:
    seen: list[bool] = []

    def look(claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        seen.append(calls.in_flight.wait_none(0))
        return {ClaimUID(claim.uid): () for claim in claims}

    calls = DraCalls(ScriptedClaimService(prepare_with=look))
    calls.prepare(wire(make_claim(1)), FakeContext().as_grpc())
    assert seen == [False]
    assert calls.in_flight.wait_none(0)
