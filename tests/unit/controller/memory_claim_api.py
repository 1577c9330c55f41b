"""``ClaimApi`` on objects in memory, and what may happen to a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from driver.controller.objects.model import Claim, Pod
from driver.errors import ApiError, ApiUnreachable, NotFound
from driver.kube.refusals import Status, build_refusal
from tests.fakes.kube_http import merge_patch
from tests.fakes.kube_kinds import kind_of
from tests.fakes.kube_objects import KubeObjects
from tests.fakes.kube_store import Refused

Json = dict[str, Any]
V = TypeVar("V")


@dataclass
class Trouble:
    """What happens to a write: ``when`` is ``before`` or ``after`` it takes effect; ``what`` is raised."""

    number: int
    when: str
    what: Callable[[], BaseException]


class MemoryClaimApi:
    """``ClaimApi`` on objects in memory. ``writes`` has what was done; ``troubles`` and ``on_write`` disturb it."""

    def __init__(self, objects: KubeObjects) -> None:
        self._objects = objects
        self.writes: list[str] = []
        self.troubles: list[Trouble] = []
        self.on_write: Callable[[str, Claim], None] = lambda what, claim: None
        self.reads = 0

    def read_claim(self, claim: Claim) -> Claim:
        self.reads += 1
        return self._ask(lambda: self._get("resourceclaims", claim.metadata.namespace, claim.metadata.name, Claim))

    def read_pod(self, namespace: str, name: str) -> Pod | None:
        try:
            return self._ask(lambda: self._get("pods", namespace, name, Pod))
        except NotFound:
            return None

    def patch(self, claim: Claim, body: Json) -> Claim:
        is_unmark = None in body["metadata"]["annotations"].values()
        return self._write("unmark" if is_unmark else "mark", claim, lambda old: merge_patch(old, plain(body)))

    def patch_status(self, claim: Claim, body: Json) -> Claim:
        name = "clear" if "allocation" in body["status"] else "reserve"
        return self._write(name, claim, lambda old: merge_patch(old, plain(body)), is_status=True)

    def put_status(self, claim: Claim, body: Json) -> Claim:
        return self._write("allocate", claim, lambda old: plain(body), is_status=True)

    def _write(self, what: str, claim: Claim, change: Callable[[Json], Json], *, is_status: bool = False) -> Claim:
        self.writes.append(what)
        self._play(what, "before")
        self.on_write(what, claim)
        meta = claim.metadata
        kind = kind_of("resourceclaims")
        answer = self._ask(lambda: self._objects.store.update(kind, meta.namespace, meta.name, change, is_status=is_status))
        self._play(what, "after")
        return decode(answer, Claim)

    def _play(self, what: str, when: str) -> None:
        for trouble in self.troubles:
            if trouble.number == len(self.writes) and trouble.when == when:
                raise trouble.what()

    def _get(self, plural: str, namespace: str, name: str, type_: type[V]) -> V:
        return decode(self._objects.store.get(kind_of(plural), namespace, name), type_)

    def _ask(self, request_: Callable[[], V]) -> V:
        try:
            return request_()
        except Refused as err:
            status = Status(reason=err.reason, message=err.message, code=err.code)
            raise build_refusal("TEST", err.code, status) from err


def unreachable() -> ApiError:
    """The connection broke: nobody knows what became of the request."""
    return ApiUnreachable("TEST", 0, "no answer")


def refusal(code: int, reason: str) -> Callable[[], ApiError]:
    return lambda: build_refusal("TEST", code, Status(reason=reason, message="played by the test", code=code))


def decode(body: Any, type_: type[V]) -> V:
    return msgspec.json.decode(msgspec.json.encode(body), type=type_)


def plain(body: Json) -> Json:
    """As it would arrive."""
    plain: Json = msgspec.json.decode(msgspec.json.encode(body))
    return plain
