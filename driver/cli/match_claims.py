"""``gpu-dra match --claim``: of each request of a claim how many devices match, and which term of which selector says no."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from driver.allocator.problem import Alternative, ClaimAsk, ProblemFault, build_problem
from driver.api.claim_spec_v1 import (
    CelSelector,
    ClaimSpec,
    DeviceClassSpec,
    DeviceSelector,
    SpecFault,
    decode_claim_spec,
    decode_class_spec,
)
from driver.cel import Selector
from driver.cli.match_answers import Answer, build_answers
from driver.cli.match_cost import count_cost
from driver.cli.match_sources import Candidate, read_objects
from driver.errors import ConfigInvalid, SettingsInvalid
from driver.kube.answers import without_nulls
from driver.nvml.mock.hints import add_hint

T = TypeVar("T")
Found = dict[str, Any]
_VERSIONS = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")
"""Of which specs have one form."""
_OURS = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == "


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One way to serve a request of a claim."""

    claim: str
    way: Alternative


def known_classes() -> dict[str, DeviceClassSpec]:
    """The classes that every installation brings, for where no cluster is asked."""
    return {
        f"{kind}.nvidia.com": DeviceClassSpec(selectors=(DeviceSelector(cel=CelSelector(expression=f"{_OURS}'{kind}'")),))
        for kind in ("gpu", "mig")
    }


def parse_classes(text: str, name: str) -> dict[str, DeviceClassSpec]:
    """The DeviceClasses of a file by name.

    Raises:
        SettingsInvalid: there are none, or one cannot be read.
    """
    found = {}
    for item in read_objects(text, name):
        if item.get("kind") == "DeviceClass":
            found[_name(item)] = _decode(
                decode_class_spec, DeviceClassSpec, without_nulls(item.get("spec") or {}), f"{name}: DeviceClass {_name(item)}"
            )
    if not found:
        raise SettingsInvalid(f"{name} has no DeviceClass; `kubectl get deviceclasses -o yaml` prints some")
    return found


def decode_class(spec: bytes, name: str) -> DeviceClassSpec:
    """The spec of a class of the cluster.

    Raises:
        SettingsInvalid: it has something that this program does not know.
    """
    try:
        return decode_class_spec(spec)
    except SpecFault as err:
        raise SettingsInvalid(f"DeviceClass {name}: {err}") from err


def parse_claims(text: str, name: str) -> list[ClaimAsk]:
    """The ResourceClaims and ResourceClaimTemplates of a file.

    Raises:
        SettingsInvalid: there are none, or one cannot be read.
    """
    asks = []
    items = read_objects(text, name)
    for item in items:
        kind, spec = item.get("kind"), item.get("spec")
        if kind == "ResourceClaimTemplate" and isinstance(spec, Mapping):
            spec = spec.get("spec")
        if kind in ("ResourceClaim", "ResourceClaimTemplate"):
            where = f"{name}: {kind} {_name(item)}"
            if item.get("apiVersion", _VERSIONS[0]) not in _VERSIONS:
                raise SettingsInvalid(
                    f"{where} is of {item['apiVersion']}; write it for {_VERSIONS[0]}, where what a request asks for stands "
                    "under exactly or firstAvailable"
                )
            decoded = _decode(decode_claim_spec, ClaimSpec, without_nulls(spec or {}), where)
            if not decoded.devices.requests:
                path = "spec.spec.devices.requests" if kind == "ResourceClaimTemplate" else "spec.devices.requests"
                raise SettingsInvalid(f"{where} asks for nothing: {path} is empty or missing")
            asks.append(ClaimAsk(name=_name(item), uid="", spec=decoded))
    if not asks:
        kinds = sorted({str(item.get("kind")) for item in items})
        found = f" (it has: {', '.join(kinds)})" if kinds else ""
        raise SettingsInvalid(f"{name} has no ResourceClaim and no ResourceClaimTemplate{found}; docs/examples.md has some")
    return asks


def list_asked(asks: Sequence[ClaimAsk], classes: Mapping[str, DeviceClassSpec], driver: str) -> list[Asked]:
    """Each way to serve each request.

    Raises:
        SettingsInvalid: a claim cannot be answered, whatever devices there are.
    """
    try:
        problem = build_problem(asks, classes, driver)
    except (ProblemFault, ConfigInvalid) as err:
        raise SettingsInvalid(f"{err}{_find_class(asks, classes)}") from err
    return [
        Asked(claim=ask.name, way=way)
        for ask, claim in zip(asks, problem.claims, strict=True)
        for request in claim.requests
        for way in request.alternatives
    ]


def _find_class(asks: Sequence[ClaimAsk], classes: Mapping[str, DeviceClassSpec]) -> str:
    """What was meant by the first class that is not known, and where others come from; empty where all are."""
    requests = [request for ask in asks for request in ask.spec.devices.requests]
    ways = [way for each in requests for way in (*([each.exactly] if each.exactly else ()), *each.first_available)]
    strange = next((way.device_class_name for way in ways if way.device_class_name not in classes), None)
    if strange is None:
        return ""
    near = difflib.get_close_matches(strange, classes, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{hint} (DeviceClasses that are known here: {', '.join(sorted(classes))}; --classes FILE brings others)"


def build_found(asked: Asked, selectors: Sequence[Selector], candidates: Sequence[Candidate], driver: str) -> Found:
    """What one request finds. As kube-scheduler does, a device is asked no further once a selector said no."""
    left, steps = list(candidates), []
    for selector in selectors:
        cost = count_cost(selector, [each for each in left if each.driver == driver])
        answers = build_answers(selector, left)
        said = [answer for answer in answers if answer["result"] is not True]
        left = [each for each, answer in zip(left, answers, strict=True) if answer["result"] is True]
        steps.append(
            {
                "selector": selector.source,
                "turnedDown": len(said),
                "failing": sum(answer["result"] == "evaluation_error" for answer in said),
                "controllerRefusal": "" if cost is None else cost.refusal,
                "terms": _count_terms(said),
            }
        )
    return {
        "claim": asked.claim,
        "request": asked.way.name,
        "deviceClass": asked.way.class_name,
        "count": asked.way.count or "all",
        "matching": len(left),
        "of": len(candidates),
        "selectors": steps,
    }


def _count_terms(answers: Sequence[Answer]) -> list[Found]:
    """Terms that did not say yes, the one that turned the most devices down first."""
    counted = Counter(
        (term["term"], term["message"], term["hint"])
        for answer in answers
        for term in answer["terms"] or [{"term": "", "message": answer["message"], "hint": ""}]
    )
    return [
        {"term": term, "devices": count, "message": message, "hint": hint}
        for (term, message, hint), count in counted.most_common()
    ]


def is_sound(found: Found) -> bool:
    """No selector fails on a device, and none is too slow for the controller."""
    return not any(step["failing"] or step["controllerRefusal"] for step in found["selectors"])


def build_lines(found: Found) -> Iterator[str]:
    """What people read of one request."""
    of = f"{found['matching']} of {found['of']} device{'' if found['of'] == 1 else 's'} match"
    short = " (fewer than that)" if found["count"] != "all" and found["matching"] < found["count"] else ""
    yield f"claim {found['claim']}, request {found['request']}: {found['count']} of {found['deviceClass']}{short}; {of}"
    for step in found["selectors"]:
        for term in step["terms"]:
            why = "; ".join(filter(None, (term["message"], term["hint"])))
            yield f"{term['devices']:>5} x  {term['term']}{': ' if term['term'] and why else ''}{why}"
        if step["failing"]:
            yield f"  this selector fails on {step['failing']}: kube-scheduler gives up the pod: {step['selector']}"
        if step["controllerRefusal"]:
            yield f"  gpu-dra controller refuses it: {step['controllerRefusal']}"


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _decode(decode: Callable[[bytes], T], kind: type[T], spec: object, where: str) -> T:
    try:
        return decode(msgspec.json.encode(spec))
    except (SpecFault, TypeError, ValueError) as err:
        raise SettingsInvalid(f"{where}: {add_hint(str(err), kind)}") from err
