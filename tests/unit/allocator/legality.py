"""Whether an allocation is legal, told from the API objects alone: nothing here knows the allocator.

It is also asked about Kubernetes' own answers, so it is no stricter than what kube-scheduler writes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from driver.api.quantity import parse_quantity

Object = dict[str, Any]
_EXPRESSION = re.compile(r'device\.attributes\["([^"]+)"\]\.(\w+) == (\d+)')


def is_true(expression: str, device: Object) -> bool:
    """The one form of selector that the cases have."""
    match = _EXPRESSION.fullmatch(expression)
    assert match is not None, expression
    return bool(device["attributes"].get(match[2], {}).get("int") == int(match[3]))


def find_faults(case: Object, results: list[list[Object]]) -> list[str]:
    """Everything that is wrong with the results of each claim; nothing where the allocation is legal."""
    devices = {
        (each["spec"]["pool"]["name"], device["name"]): device
        for each in case["slices"]
        for device in each["spec"].get("devices", ())
    }
    faults: list[str] = []
    for claim, rows in zip(case["claims"], results, strict=True):
        faults += _check_claim(case, claim, rows, devices)
    rows = [row for each in results for row in each]
    faults += _check_exclusive(case, rows, devices)
    faults += _check_counters(case, rows, devices)
    faults += _check_shares(case, rows, devices)
    return faults


def _check_claim(case: Object, claim: Object, rows: list[Object], devices: dict[tuple[str, str], Object]) -> Iterator[str]:
    served: Counter[str] = Counter(row["request"] for row in rows)
    if len(rows) > 32:
        yield "more than 32 results"
    order = [row["request"].partition("/")[0] for row in rows]
    names = [request["name"] for request in claim["spec"]["devices"]["requests"]]
    if not set(order) <= set(names):
        yield f"results of requests that nobody made: {order}"
    elif sorted(order, key=names.index) != order:
        yield f"results not in order of requests: {order}"
    for request in claim["spec"]["devices"]["requests"]:
        mine = {name: count for name, count in served.items() if name.partition("/")[0] == request["name"]}
        if len(mine) != 1:
            yield f"request {request['name']} is served as {mine}"
            continue
        ((name, count),) = mine.items()
        ask = _ask_of(request, name)
        yield from _check_request(case, ask, [devices[row["pool"], row["device"]] for row in rows if row["request"] == name])
        wanted = len(list(_matching(case, ask))) if ask.get("allocationMode") == "All" else ask.get("count", 1)
        if count != wanted:
            yield f"{name}: {count} devices instead of {wanted}"
        if any(row.get("tolerations", []) != ask.get("tolerations", []) for row in rows if row["request"] == name):
            yield f"{name}: tolerations are not copied"
        if any(bool(row.get("adminAccess")) != bool(ask.get("adminAccess")) for row in rows if row["request"] == name):
            yield f"{name}: adminAccess is not copied"
    yield from _check_constraints(claim, rows, devices)
    unshared = [(row["pool"], row["device"]) for row in rows if not row.get("shareID")]
    if len(set(unshared)) != len(unshared):
        yield "a device twice in one claim"


def _ask_of(request: Object, name: str) -> Object:
    if "exactly" in request:
        return dict(request["exactly"])
    return next(sub for sub in request["firstAvailable"] if f"{request['name']}/{sub['name']}" == name)


def _selects(case: Object, ask: Object, device: Object) -> bool:
    selectors = [*case["classes"][ask["deviceClassName"]].get("selectors", ()), *ask.get("selectors", ())]
    return all(is_true(each["cel"]["expression"], device) for each in selectors)


def _matching(case: Object, ask: Object) -> Iterator[Object]:
    """What a request for all devices is for: selectors, and capacity as if nothing were drawn."""
    for each in case["slices"]:
        for device in each["spec"].get("devices", ()):
            if _selects(case, ask, device) and _holds(ask, device):
                yield device


def _holds(ask: Object, device: Object) -> bool:
    asked = ask.get("capacity", {}).get("requests", {})
    return all(
        name in device.get("capacity", {}) and parse_quantity(text) <= parse_quantity(device["capacity"][name]["value"])
        for name, text in asked.items()
    )


def _check_request(case: Object, ask: Object, chosen: list[Object]) -> Iterator[str]:
    for device in chosen:
        if not _selects(case, ask, device):
            yield f"{device['name']} does not match its selectors"
        if not _holds(ask, device):
            yield f"{device['name']} has too little capacity"
        for taint in device.get("taints", ()):
            if taint["effect"] != "None" and not any(_tolerates(each, taint) for each in ask.get("tolerations", ())):
                yield f"{device['name']} has a taint that is not tolerated"


def _tolerates(toleration: Object, taint: Object) -> bool:
    is_equal = toleration.get("operator", "Equal") == "Equal"
    return (
        toleration.get("key", taint["key"]) == taint["key"]
        and toleration.get("effect", taint["effect"]) == taint["effect"]
        and (not is_equal or toleration.get("value", "") == taint.get("value", ""))
    )


def _check_constraints(claim: Object, rows: list[Object], devices: dict[tuple[str, str], Object]) -> Iterator[str]:
    for constraint in claim["spec"]["devices"].get("constraints", ()):
        named = constraint.get("requests")
        covered = [row for row in rows if not named or row["request"] in named or row["request"].partition("/")[0] in named]
        attribute = constraint.get("matchAttribute") or constraint["distinctAttribute"]
        values = [devices[row["pool"], row["device"]]["attributes"].get(attribute.rpartition("/")[2]) for row in covered]
        if None in values:
            yield f"a device has no {attribute}"
        different = {str(value) for value in values}
        if "matchAttribute" in constraint and len(different) > 1:
            yield f"{attribute} differs"
        if "distinctAttribute" in constraint and len(different) != len(values):
            yield f"{attribute} is not distinct"


def _check_exclusive(case: Object, rows: list[Object], devices: dict[tuple[str, str], Object]) -> Iterator[str]:
    taken = {(each["pool"], each["device"]) for each in case["allocated"]}
    own: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = (row["pool"], row["device"])
        if row.get("adminAccess") or devices[key].get("allowMultipleAllocations"):
            continue
        own[key] += 1
        if key in taken:
            yield f"{key} is taken"
    yield from (f"{key} is given twice" for key, count in own.items() if count > 1)


def _check_counters(case: Object, rows: list[Object], devices: dict[tuple[str, str], Object]) -> Iterator[str]:
    left: dict[tuple[str, str, str], Fraction] = {}
    for each in case["slices"]:
        for counters in each["spec"].get("sharedCounters", ()):
            for name, counter in counters["counters"].items():
                left[each["spec"]["pool"]["name"], counters["name"], name] = parse_quantity(counter["value"])
    used = {(each["pool"], each["device"]) for each in (*case["allocated"], *case["shared"])}
    used |= {(row["pool"], row["device"]) for row in rows if not row.get("adminAccess")}
    for pool, name in used:
        for consumption in devices[pool, name].get("consumesCounters", ()):
            for counter, amount in consumption["counters"].items():
                left[pool, consumption["counterSet"], counter] -= parse_quantity(amount["value"])
    touched = {
        (row["pool"], each["counterSet"])
        for row in rows
        if not row.get("adminAccess")
        for each in devices[row["pool"], row["device"]].get("consumesCounters", ())
    }
    for (pool, counter_set, name), amount in left.items():
        if amount < 0 and (pool, counter_set) in touched:
            yield f"counter {name} of {counter_set} in {pool} is overdrawn"


def _check_shares(case: Object, rows: list[Object], devices: dict[tuple[str, str], Object]) -> Iterator[str]:
    drawn: Counter[tuple[str, str, str]] = Counter()
    ids = [row["shareID"] for row in rows if row.get("shareID")]
    if len(set(ids)) != len(ids):
        yield "a share id twice"
    shares = [(each, each["consumed"]) for each in case["shared"]]
    shares += [(row, row.get("consumedCapacity", {})) for row in rows if row.get("shareID")]
    for row, consumed in shares:
        for name, text in consumed.items():
            drawn[row["pool"], row["device"], name] += parse_quantity(text)  # type: ignore[assignment]
    for row in rows:
        device = devices[row["pool"], row["device"]]
        if bool(row.get("shareID")) != bool(device.get("allowMultipleAllocations")):
            yield f"{row['device']}: a share id is for shared devices alone"
        for name, capacity in device.get("capacity", {}).items() if row.get("shareID") else ():
            if drawn[row["pool"], row["device"], name] > parse_quantity(capacity["value"]):
                yield f"{row['device']}: capacity {name} is overdrawn"
            if name not in row.get("consumedCapacity", {}):
                yield f"{row['device']}: {name} is not said to be consumed"
