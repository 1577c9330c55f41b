"""Whose a claim is: which are left alone, why, and when that changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from driver.api.fence import ALLOCATOR_KEY, SCHEDULER
from driver.controller.books.judge import Whose
from driver.controller.objects.model import Claim, DeviceClass
from driver.controller.objects.ownership import EXTENDED_RESOURCE_ANNOTATION
from tests.unit.controller.books.fleets import first_available, mixed, product
from tests.unit.controller.world import CREATED, DRIVER, World, decode, gpus, policy, request, world

FENCE_TOLERATION = {"key": ALLOCATOR_KEY, "operator": "Exists"}
IS_OURS = "ours"


def bare(attribute: str) -> dict[str, Any]:
    """A selector that does not ask first whether the attribute is there."""
    return {"cel": {"expression": f"device.attributes['{DRIVER}'].{attribute} == 'x'"}}


CASES: list[tuple[str, Callable[[World], Claim], Whose, str, bool]] = [
    ("a claim that fenced devices can serve", lambda w: w.claim("c"), Whose.OURS, "", False),
    (
        "one that either side could serve: whoever is first",
        lambda w: w.claim("c", request(count=1), request("more")),
        Whose.OURS,
        "",
        False,
    ),
    (
        "more than there is of what matches: it waits",
        lambda w: w.claim("c", request(count=9, selectors=[product("H100")])),
        Whose.OURS,
        "",
        False,
    ),
    (
        "what only kube-scheduler has",
        lambda w: w.claim("c", request(selectors=[product("A100")])),
        Whose.THEIRS,
        "request gpus of claim c matches only devices that are kube-scheduler's",
        False,
    ),
    (
        "what nobody gives at the moment",
        lambda w: w.claim("c", request(selectors=[product("L40S")])),
        Whose.THEIRS,
        "request gpus of claim c matches only devices that are kube-scheduler's",
        False,
    ),
    (
        "another driver's",
        lambda w: w.claim("c", request("nic", "nic")),
        Whose.THEIRS,
        "no device of gpu.nvidia.com matches request nic of claim c",
        False,
    ),
    (
        "what no device matches",
        lambda w: w.claim("c", request(selectors=[product("B200")])),
        Whose.THEIRS,
        "no device of gpu.nvidia.com matches request gpus of claim c",
        False,
    ),
    (
        "a selector that fails on every device that the class selects",
        lambda w: w.claim("c", request(selectors=[bare("nonsense")])),
        Whose.NOBODYS,
        "claim c: request gpus matches no device: a selector fails on a/gpu-0: no such key: nonsense (in gpu.nvidia.com)",
        True,
    ),
    (
        "a class whose own selector fails on our devices: another driver's",
        lambda w: w.claim("c", request("nic", "careless")),
        Whose.THEIRS,
        "no device of gpu.nvidia.com matches request nic of claim c",
        False,
    ),
    (
        "two drivers in one claim",
        lambda w: w.claim("c", request(), request("nic", "nic")),
        Whose.NOBODYS,
        "claim c mixes drivers: no device of gpu.nvidia.com matches request nic",
        True,
    ),
    (
        "an alternative that is there is enough",
        lambda w: w.claim("c", first_available({"deviceClassName": "nic"}, {"deviceClassName": "gpu"})),
        Whose.OURS,
        "",
        False,
    ),
    (
        "no alternative is there",
        lambda w: w.claim("c", first_available({"deviceClassName": "nic"})),
        Whose.THEIRS,
        "no device of gpu.nvidia.com matches request gpus of claim c",
        False,
    ),
    (
        "one that is being deleted",
        lambda w: (w.claim("c"), w.change_claim("c", metadata={"deletionTimestamp": CREATED}))[1],
        Whose.NOBODYS,
        "claim c is being deleted",
        False,
    ),
    (
        "one that kube-scheduler made for an extended resource",
        lambda w: w.claim("c", annotations={EXTENDED_RESOURCE_ANNOTATION: "true"}),
        Whose.NOBODYS,
        "claim c is for an extended resource: kube-scheduler makes and allocates such claims",
        False,
    ),
    (
        "an empty one",
        lambda w: w.claim("c", spec={"devices": {"requests": []}}),
        Whose.THEIRS,
        "claim c asks for nothing",
        False,
    ),
    (
        "33 results",
        lambda w: w.claim("c", request(count=33)),
        Whose.NOBODYS,
        "claim c: asks for 33 devices, an allocation holds at most 32",
        True,
    ),
    (
        "a class that does not exist",
        lambda w: w.claim("c", request(device_class="nope")),
        Whose.NOBODYS,
        "claim c: request gpus: DeviceClass nope does not exist",
        True,
    ),
    (
        "admin access that tolerates the fence (R21)",
        lambda w: w.claim("c", request(adminAccess=True, tolerations=[FENCE_TOLERATION])),
        Whose.THEIRS,
        "claim c has admin access and tolerates the fence: kube-scheduler allocates it (R21)",
        False,
    ),
    (
        "admin access that tolerates everything",
        lambda w: w.claim("c", request(adminAccess=True, tolerations=[{"operator": "Exists"}])),
        Whose.THEIRS,
        "claim c has admin access and tolerates the fence: kube-scheduler allocates it (R21)",
        False,
    ),
    ("admin access that does not tolerate it", lambda w: w.claim("c", request(adminAccess=True)), Whose.OURS, "", False),
    (
        "admin access and a device of its own: kube-scheduler cannot serve both",
        lambda w: w.claim("c", request("watch", adminAccess=True, tolerations=[FENCE_TOLERATION]), request()),
        Whose.OURS,
        "",
        False,
    ),
]


@pytest.mark.parametrize(("make", "whose", "reason", "is_fault"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_whose_a_claim_is(make: Callable[[World], Claim], whose: Whose, reason: str, is_fault: bool) -> None:
    made = mixed()
    found = made.cluster.judge.judge(make(made))
    assert (found.whose, found.reason, found.is_fault) == (whose, reason, is_fault)


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    (
        "a selector that does not compile",
        {"requests": [request(selectors=[{"cel": {"expression": "device.nonsense"}}])]},
        "request gpus: a selector of its own or of its class is broken: ",
    ),
    ("a field of the future", {"requests": [request(derivedAttributes=[])]}, "unknown field `derivedAttributes`"),
    ("a constraint of the future", {"constraints": [{"requests": ["gpus"], "sameRack": True}]}, "unknown field `sameRack`"),
    (
        "a policy with a typing mistake",
        {"config": [policy(mode="requred")]},
        'mode: "requred" is not one of required, preferred',
    ),
    (
        "an amount that is none",
        {"requests": [request(capacity={"requests": {"memory": "much"}})]},
        "'much' is no Kubernetes quantity",
    ),
]


@pytest.mark.parametrize(("devices", "reason"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_cannot_be_read_whole_is_left_alone_and_its_fault_told(devices: dict[str, Any], reason: str) -> None:
    """R14: a constraint that nobody looked at would make the allocation illegal."""
    made = mixed()
    more = {key: value for key, value in devices.items() if key != "requests"}
    found = made.cluster.judge.judge(made.claim("c", *devices.get("requests", [request()]), **more))
    assert (found.whose, found.is_fault) == (Whose.NOBODYS, True)
    assert "claim c" in found.reason
    assert reason in found.reason


def test_a_broken_class_is_named() -> None:
    made = mixed()
    made.put(decode(DeviceClass, {"metadata": {"name": "odd", "uid": "odd"}, "spec": {"fromTheFuture": 1}}))
    made.put(
        decode(
            DeviceClass,
            {"metadata": {"name": "bad", "uid": "bad"}, "spec": {"selectors": [{"cel": {"expression": "device.driver =="}}]}},
        )
    )
    odd = made.cluster.judge.judge(made.claim("c", request(device_class="odd")))
    bad = made.cluster.judge.judge(made.claim("d", request(device_class="bad")))
    assert odd.reason.startswith("claim c: DeviceClass odd: ")
    assert "is broken" in bad.reason


def test_a_judgement_follows_classes_and_devices() -> None:
    made = world("b")
    claim = made.claim("c", request(device_class="late", selectors=[product("A100")]))
    judge = made.cluster.judge
    assert judge.judge(claim).whose is Whose.NOBODYS
    made.classes({"late": {}})
    assert judge.judge(claim).whose is Whose.THEIRS
    made.slice("b", gpus(1, "A100"))
    assert judge.judge(claim).whose is Whose.OURS
    made.slice("b", gpus(1, "A100", SCHEDULER))
    assert judge.judge(claim).whose is Whose.THEIRS
    made.slice("b", gpus(1, "H100"))
    assert judge.judge(claim).reason == "no device of gpu.nvidia.com matches request gpus of claim c"


def test_what_a_judgement_depends_on_is_noticed_and_nothing_else() -> None:
    made = world("a")
    claim = made.claim("c")
    judge = made.cluster.judge
    judge.judge(claim)
    before = judge.follow()
    made.node("b", gpus(4))
    made.allocate("c", "a", "gpu-0")
    assert judge.follow() == before
    made.slice("a", gpus(4, value=SCHEDULER))
    made.slice("b", gpus(4, value=SCHEDULER))
    assert judge.follow() != before


def test_a_claim_is_read_once_a_version_of_the_classes() -> None:
    """20,000 claims wait for the same thing: equal claims have one problem."""
    made = mixed()
    first = made.cluster.judge.judge(made.claim("c"))
    second = made.cluster.judge.judge(made.claim("d"))
    again = made.cluster.judge.judge(made.get(Claim, "c"))
    assert first.reading is again.reading
    assert first.reading.part is second.reading.part
