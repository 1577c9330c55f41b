"""Claims that would climb over the fence: they tolerate its taint, so kube-scheduler may give them the controller's GPUs.

The admission policy ``deploy/admission/refuse-fence-tolerations.yaml`` lets none in; those that are older than it are found
here (R21). Both judge alike: ``tests/e2e/fence_cases.py`` holds them to one table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from driver import log
from driver.api.fence import ALLOCATOR_KEY, FENCE_EFFECT, FENCED, TOPOLOGY_CLASS
from driver.controller.acting.speech import Recorder, refer_to_claim
from driver.controller.objects.model import Claim, Lean

_LOG = log.logger(__name__)

_MOST_EVENTS = 100


class _Toleration(Lean, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _Request(Lean, frozen=True, kw_only=True):
    admin_access: bool | None = None
    tolerations: tuple[_Toleration, ...] = ()


class _DeviceRequest(Lean, frozen=True, kw_only=True):
    name: str = ""
    exactly: _Request | None = None
    first_available: tuple[_Request, ...] = ()


class _Devices(Lean, frozen=True, kw_only=True):
    requests: tuple[_DeviceRequest, ...] = ()


class _Spec(Lean, frozen=True, kw_only=True):
    devices: _Devices = _Devices()


@dataclass(frozen=True, slots=True, kw_only=True)
class Climber:
    """A claim that is to be made anew without its toleration; ``text`` is for its event and the log."""

    claim: Claim
    requests: tuple[str, ...]
    text: str


def find_climbers(claims: Iterable[Claim]) -> tuple[Climber, ...]:
    """The claims without an allocation of which a request tolerates the fence. Unknown fields of a spec do not matter."""
    found = []
    for claim in claims:
        if claim.status.allocation is not None:
            continue  # what it holds, it holds: from here on it is like any other
        names = tuple(request.name for request in _read_requests(claim) if _climbs(request))
        if names:
            found.append(Climber(claim=claim, requests=names, text=_describe(names)))
    return tuple(found)


def tell_climbers(claims: Iterable[Claim], recorder: Recorder) -> None:
    """Tell people of each claim that climbs: events on the first of them, and one line in the log."""
    climbers = find_climbers(claims)
    if not climbers:
        return
    names = [each.claim.metadata.full_name for each in climbers[:_MOST_EVENTS]]
    log.event(_LOG, log.WARNING, "claims tolerate the fence", claims=names, count=len(climbers), see="docs/fence.md")
    for each in climbers[:_MOST_EVENTS]:
        recorder.record(refer_to_claim(each.claim), "FenceTolerated", each.text, action="Allocate", is_warning=True)


def _read_requests(claim: Claim) -> tuple[_DeviceRequest, ...]:
    try:
        return msgspec.json.decode(claim.spec, type=_Spec).devices.requests
    except (msgspec.MsgspecError, RecursionError):
        return ()


def _climbs(request: _DeviceRequest) -> bool:
    asked = request.first_available if request.exactly is None else (request.exactly,)
    return any(not one.admin_access and any(map(_matches_fence, one.tolerations)) for one in asked)


def _matches_fence(toleration: _Toleration) -> bool:
    """As kube-scheduler judges: no key is every key, no effect every effect, no operator ``Equal``."""
    if toleration.key not in ("", ALLOCATOR_KEY) or toleration.effect not in ("", FENCE_EFFECT):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value in FENCED)


def _describe(names: tuple[str, ...]) -> str:
    return (
        f"request {', '.join(names)} tolerates {ALLOCATOR_KEY}, so kube-scheduler may give it GPUs that the controller gives to"
        " others: make the claim anew without the toleration (with one for each taint that is meant, instead of an empty key);"
        f" GPUs of the controller need none, but the DeviceClass {TOPOLOGY_CLASS}"
    )
