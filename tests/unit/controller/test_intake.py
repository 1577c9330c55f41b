"""Watches tell the decision thread what they see, one that breaks ends the process, and one that hangs holds nobody up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from driver.controller import intake
from driver.controller.intake import Intake, Message, Source, Told
from driver.controller.objects.taint_rules import OLDER_TAINT_RULES, TAINT_RULES, DeviceTaintRule
from driver.errors import ApiUnreachable, NotFound
from driver.kube.changes import Change, ChangeKind
from driver.kube.client import KubeClient, Listing
from driver.kube.resources import Resource
from driver.kube.watch import Listed
from tests.unit.controller.world import DRIVER, decode

RULE = decode(
    DeviceTaintRule, {"metadata": {"name": "bad", "uid": "u"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
)
ADDED = Change(kind=ChangeKind.ADDED, item=RULE)


class ListingClient:
    """A client of which only lists are wanted: ``answer`` gives each, or raises, or hangs."""

    def __init__(self, answer: Callable[[Resource[Any]], Listing[Any] | None]) -> None:
        self._answer = answer
        self.is_closed = False

    def list_all(self, resource: Resource[Any], *_: object, **__: object) -> Listing[Any] | None:
        return self._answer(resource)

    def open_watch(self, *_: object, **__: object) -> None:
        """What is listed is all that there is to see."""
        raise ApiUnreachable("WATCH /devicetaintrules", 0, "no watch here")

    def close(self) -> None:
        self.is_closed = True


def start(client: ListingClient) -> tuple[Intake, queue.SimpleQueue[Message], queue.SimpleQueue[Exception]]:
    told: queue.SimpleQueue[Message] = queue.SimpleQueue()
    failed: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    made = Intake(DRIVER, cast(KubeClient, client), told.put, failed.put)
    made.start()
    return made, told, failed


@pytest.fixture
def hang() -> Any:
    """Hangs until the test is over."""
    over = threading.Event()
    yield lambda _: over.wait()
    over.set()


def test_lists_that_hang_hold_up_the_end_once_and_not_one_after_the_other(
    hang: Callable[[Resource[Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod has 30 s for its end, in which claims that are being written come first."""
    monkeypatch.setattr(intake, "_STOP_S", 0.2)
    client = ListingClient(hang)
    made, _, _ = start(client)
    began_s = time.monotonic()
    made.stop()
    assert time.monotonic() - began_s < 0.2 * 4
    assert client.is_closed


def test_a_watch_that_breaks_is_told(hang: Callable[[Resource[Any]], None]) -> None:
    def answer(resource: Resource[Any]) -> None:
        if resource.plural == "pods":
            raise TypeError("nobody foresaw this")
        hang(resource)

    _, _, failed = start(ListingClient(answer))
    assert str(failed.get(timeout=10)) == "nobody foresaw this"


NO_RULES = Told(source=Source.RULES, seen=Listed(resource_version="", uids=frozenset()))
UNSERVED = NotFound("GET /devicetaintrules", 404, "the server could not find the requested resource")


def test_where_rules_are_not_served_there_are_none(hang: Callable[[Resource[Any]], None]) -> None:
    def answer(resource: Resource[Any]) -> None:
        if resource.plural == TAINT_RULES.plural:
            raise UNSERVED
        hang(resource)

    made, told, _ = start(ListingClient(answer))
    assert told.get(timeout=10) == NO_RULES
    made.stop()


def test_rules_that_are_served_later_are_seen_without_a_restart(
    hang: Callable[[Resource[Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control plane is upgraded to 1.37, or an API server says 404 while it starts."""
    monkeypatch.setattr(intake, "_ASK_AGAIN_S", 0.01)
    asked: list[Resource[Any]] = []

    def answer(resource: Resource[Any]) -> Listing[Any] | None:
        if resource.plural != TAINT_RULES.plural:
            hang(resource)
            return None
        asked.append(resource)
        if len(asked) <= 2:
            raise UNSERVED
        return Listing(items=(RULE,), resource_version="7")

    made, told, _ = start(ListingClient(answer))
    assert [told.get(timeout=10) for _ in range(2)] == [NO_RULES, Told(source=Source.RULES, seen=ADDED)]
    made.stop()


def test_rules_of_1_36_are_seen(hang: Callable[[Resource[Any]], None]) -> None:
    """It has them in ``v1beta2``; a GPU that an administrator has tainted was given out, and its pod evicted at once."""

    def answer(resource: Resource[Any]) -> Listing[Any] | None:
        if resource is TAINT_RULES:
            raise UNSERVED
        if resource is OLDER_TAINT_RULES:
            return Listing(items=(RULE,), resource_version="7")
        hang(resource)
        return None

    made, told, _ = start(ListingClient(answer))
    assert told.get(timeout=10) == Told(source=Source.RULES, seen=ADDED)
    made.stop()
