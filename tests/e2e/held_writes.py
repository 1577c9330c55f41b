"""kube-scheduler's writes to claims are held back by the API server, for as long as one likes.

It has chosen node and devices, keeps them in its memory, and its request to write them down hangs: what a change of sides must
wait for (R3). An unbound volume does not bring this about in 1.37, which writes the claim while it waits for the volume.

The means is API priority and fairness: a level without a seat, to which only these requests go. They queue there, are turned
away with 429 after some seconds, and client-go sends them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hack.devcluster.processes import wait_until
from tests.e2e.kube import Json, KubeApi
from tests.e2e.stage import expect

_NAME = "e2e-held-writes"
_USER = "system:kube-scheduler"
_VERSION = "flowcontrol.apiserver.k8s.io/v1"


class HeldWrites:
    """The writes, while they are held."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def wait_hanging(self) -> None:
        """Wait until a request hangs."""
        hangs = wait_until(lambda: self._count() > 0, timeout_s=60.0)
        expect(hangs, "kube-scheduler sends no write that could be held")

    def let_go(self) -> None:
        """They get a seat, and later ones go the usual way."""
        self._api.apply(_build_level(shares=10))
        self._api.delete("FlowSchema", None, _NAME)

    def _count(self) -> int:
        """Requests in the queue now."""
        lines = self._api.request_text("GET", "/metrics").splitlines()
        name = "apiserver_flowcontrol_current_inqueue_requests{"
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(name) and _NAME in line)


@contextmanager
def held_writes(api: KubeApi) -> Iterator[HeldWrites]:
    """From here on none of kube-scheduler's writes to claims gets through, until they are let go or the block ends."""
    api.apply(_build_level(shares=0))
    api.apply(_SCHEMA)
    expect(wait_until(lambda: _is_heeded(api), timeout_s=30.0), "the API server does not heed the flow schema")
    held = HeldWrites(api)
    try:
        yield held
    finally:
        held.let_go()
        api.delete("PriorityLevelConfiguration", None, _NAME)


def _is_heeded(api: KubeApi) -> bool:
    """The server has taken over the level: it has a figure for it."""
    return f'priority_level="{_NAME}"' in api.request_text("GET", "/metrics")


def _build_level(*, shares: int) -> Json:
    response = {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": response}
    return {
        "apiVersion": _VERSION,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": _NAME},
        "spec": {"type": "Limited", "limited": limited},
    }


_RULE: Json = {
    "verbs": ["update", "patch"],
    "apiGroups": ["resource.k8s.io"],
    "resources": ["resourceclaims", "resourceclaims/status"],
    "namespaces": ["*"],
}
_SCHEMA: Json = {
    "apiVersion": _VERSION,
    "kind": "FlowSchema",
    "metadata": {"name": _NAME},
    "spec": {
        "priorityLevelConfiguration": {"name": _NAME},
        "matchingPrecedence": 2,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": _USER}}], "resourceRules": [_RULE]}],
    },
}
