"""DRAPlugin v1 and v1beta1, the kubelet's calls about claims, over one version-neutral ``ClaimService``.

This is the outermost place of a call: whatever goes wrong below becomes the text of the claim that it happened to, and the
process stays up. gRPC's own status codes are for gRPC's own trouble only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias, TypeVar

import grpc

from driver import log
from driver.claims.model import CallContext, ClaimRef, ClaimService, Deadline, PreparedDevice
from driver.errors import ClaimBusy, DriverError
from driver.names import ClaimUID
from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc
from driver.pb.dra.v1beta1 import api_pb2 as v1beta1
from driver.pb.dra.v1beta1 import api_pb2_grpc as v1beta1_grpc
from driver.plugin import claim_calls
from driver.plugin.claim_calls import AskedClaim

_LOG = log.logger(__name__)

_T = TypeVar("_T")
_Message = TypeVar("_Message")
Prepared: TypeAlias = tuple[PreparedDevice, ...]


class WireClaim(Protocol):
    """A claim of either version's call."""

    namespace: str
    name: str
    uid: str


class KubeletCall:
    """The ``CallContext`` of a gRPC call."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self._deadline = Deadline(claim_calls.choose_deadline_s(context.time_remaining()))

    def deadline(self) -> Deadline:
        """When work for this call ends: a margin before the caller stops waiting."""
        return self._deadline

    def is_active(self) -> bool:
        """False once the caller cancelled, or its deadline passed, or this server gave the call up to stop."""
        return self._context.is_active()


class CallsInFlight:
    """Counts the calls that run, so that a stop can wait for their roll-back, which gRPC itself does not."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """A call runs in this block."""
        with self._condition:
            self._count += 1
        try:
            yield
        finally:
            with self._condition:
                self._count -= 1
                self._condition.notify_all()

    def wait_none(self, timeout_s: float) -> bool:
        """True as soon as no call runs; False when one still does after the time."""
        with self._condition:
            return self._condition.wait_for(lambda: self._count == 0, timeout_s)


class DraCalls:
    """Prepare and unprepare, in no version's words: a text or a result for each uid that was asked, and for no other."""

    def __init__(self, claim_service: ClaimService) -> None:
        self._claim_service = claim_service
        self.in_flight = CallsInFlight()

    def prepare(self, asked: Iterable[WireClaim], context: grpc.ServicerContext) -> dict[str, Prepared | str]:
        """The devices of each claim, or its error."""
        with self.in_flight.one(), log.operation(call="prepare"):
            return self._answer(asked, KubeletCall(context), self._claim_service.prepare)

    def unprepare(self, asked: Iterable[WireClaim], context: grpc.ServicerContext) -> dict[str, str | None]:
        """None for each claim that is released, or its error."""
        with self.in_flight.one(), log.operation(call="unprepare"):
            return self._answer(asked, KubeletCall(context), self._claim_service.unprepare)

    def _answer(
        self,
        asked: Iterable[WireClaim],
        call: CallContext,
        ask: Callable[[Sequence[ClaimRef], CallContext], Mapping[ClaimUID, _T | DriverError]],
    ) -> dict[str, _T | str]:
        started = time.monotonic()
        checked = claim_calls.validate_claims([AskedClaim(each.namespace, each.name, each.uid) for each in asked])
        for uid, fault in checked.faults.items():
            log.event(_LOG, log.WARNING, "refused a claim of a call", claim_uid=uid[:64], error=fault)
        answers: dict[str, _T | str] = dict(checked.faults)
        if checked.claims:
            results = _ask_service(checked.claims, call, ask)
            for claim in checked.claims:
                answers[claim.uid] = _settle(claim, results, time.monotonic() - started)
        return answers


def _ask_service(
    claims: tuple[ClaimRef, ...],
    call: CallContext,
    ask: Callable[[Sequence[ClaimRef], CallContext], Mapping[ClaimUID, _T | DriverError]],
) -> Mapping[ClaimUID, _T | BaseException]:
    if not call.is_active():
        return dict.fromkeys((claim.uid for claim in claims), ClaimBusy("the call was over before its turn came; ask again"))
    try:
        return ask(claims, call)
    except Exception as err:  # noqa: BLE001 - the outermost place of a call: a bug below must not take the process along
        log.event(_LOG, log.ERROR, "a call failed as a whole", claims=[claim.uid for claim in claims], error=err, exc=err)
        return dict.fromkeys((claim.uid for claim in claims), err)


def _settle(claim: ClaimRef, results: Mapping[ClaimUID, _T | BaseException], took_s: float) -> _T | str:
    result = results.get(claim.uid, _NO_ANSWER)
    text = claim_calls.describe_error(result) if isinstance(result, BaseException) else None
    level, message = (log.INFO, "a claim is done") if text is None else (log.WARNING, "a claim failed")
    took_ms = round(took_s * 1000, 1)
    log.event(_LOG, level, message, claim=f"{claim.namespace}/{claim.name}", claim_uid=claim.uid, took_ms=took_ms, error=text)
    return claim_calls.describe_error(result) if isinstance(result, BaseException) else result


_NO_ANSWER = RuntimeError("the driver has no answer for this claim, which is a fault of the driver; see its log")


def build_entries(
    answers: Mapping[str, _T | str], done: Callable[[_T], _Message], failed: Callable[[str], _Message]
) -> dict[str, _Message]:
    """A message for each claim; one that cannot be encoded becomes an error of its own claim."""
    messages: dict[str, _Message] = {}
    for uid, answer in answers.items():
        try:
            messages[uid] = failed(answer) if isinstance(answer, str) else done(answer)
        except (TypeError, ValueError) as err:
            log.event(_LOG, log.ERROR, "an answer cannot be sent", claim_uid=uid[:64], error=err, exc=err)
            messages[uid] = failed(f"the driver's answer cannot be sent: {claim_calls.describe_error(err)}")
    return messages


class DraV1(v1_grpc.DRAPluginServicer):
    """``v1.DRAPlugin``."""

    def __init__(self, calls: DraCalls) -> None:
        self._calls = calls

    def NodePrepareResources(  # noqa: N802
        self, request: v1.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1.NodePrepareResourcesResponse:
        """An entry for each claim of the call."""
        answers = self._calls.prepare(request.claims, context)
        entries = build_entries(answers, _prepared_v1, lambda text: v1.NodePrepareResourceResponse(error=text))
        return v1.NodePrepareResourcesResponse(claims=entries)

    def NodeUnprepareResources(  # noqa: N802
        self, request: v1.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1.NodeUnprepareResourcesResponse:
        """An entry for each claim of the call."""
        answers = self._calls.unprepare(request.claims, context)
        entry = v1.NodeUnprepareResourceResponse
        return v1.NodeUnprepareResourcesResponse(
            claims=build_entries(answers, lambda _: entry(), lambda text: entry(error=text))
        )


class DraV1Beta1(v1beta1_grpc.DRAPluginServicer):
    """``v1beta1.DRAPlugin``: the same without ``share_id``."""

    def __init__(self, calls: DraCalls) -> None:
        self._calls = calls

    def NodePrepareResources(  # noqa: N802
        self, request: v1beta1.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1beta1.NodePrepareResourcesResponse:
        """An entry for each claim of the call."""
        answers = self._calls.prepare(request.claims, context)
        entries = build_entries(answers, _prepared_v1beta1, lambda text: v1beta1.NodePrepareResourceResponse(error=text))
        return v1beta1.NodePrepareResourcesResponse(claims=entries)

    def NodeUnprepareResources(  # noqa: N802
        self, request: v1beta1.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1beta1.NodeUnprepareResourcesResponse:
        """An entry for each claim of the call."""
        answers = self._calls.unprepare(request.claims, context)
        entry = v1beta1.NodeUnprepareResourceResponse
        return v1beta1.NodeUnprepareResourcesResponse(
            claims=build_entries(answers, lambda _: entry(), lambda text: entry(error=text))
        )


def _prepared_v1(devices: Prepared) -> v1.NodePrepareResourceResponse:
    return v1.NodePrepareResourceResponse(
        devices=[
            v1.Device(
                request_names=each.requests,
                pool_name=each.pool,
                device_name=each.device,
                cdi_device_ids=each.cdi_device_ids,
                share_id=each.share_id,
            )
            for each in devices
        ]
    )


def _prepared_v1beta1(devices: Prepared) -> v1beta1.NodePrepareResourceResponse:
    return v1beta1.NodePrepareResourceResponse(
        devices=[
            v1beta1.Device(
                request_names=each.requests,
                pool_name=each.pool,
                device_name=each.device,
                cdi_device_ids=each.cdi_device_ids,
            )
            for each in devices
        ]
    )
