"""Random cases for both allocators, ours and Kubernetes': ``python -m hack.oracle_allocator.cases COUNT SEED`` prints lines.

Small nodes, so that every search ends, but everything at once: taints, counters, shared devices, admin access, alternatives,
constraints over some requests, devices that are taken. A case is the same for the same seed.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from typing import Any

DRIVER = "gpu.nvidia.com"
NODE = "node-a"
EXPRESSIONS = tuple(f'device.attributes["{DRIVER}"].{name} == {value}' for name in "ab" for value in (1, 2))
TAINTS = (
    {"key": "t/x", "effect": "NoSchedule"},
    {"key": "t/x", "value": "v", "effect": "NoExecute"},
    {"key": "t/y", "effect": "None"},
)
TOLERATIONS = (
    {"key": "t/x", "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "t/x", "operator": "Equal", "value": "v"},
    {"key": "t/x", "operator": "Exists", "effect": "NoSchedule"},
)

Object = dict[str, Any]


def build_case(number: int, seed: int) -> Object:
    """One case."""
    rng = random.Random(f"{seed}/{number}")
    pools = [_build_pool(rng, name) for name in ("pool-a", "pool-b")[: rng.choice((1, 1, 2))]]
    slices = [each for pool in pools for each in pool]
    devices = [(each["spec"]["pool"]["name"], device) for each in slices for device in each["spec"].get("devices", ())]
    allocated, shared = _take(rng, devices)
    return {
        "id": f"{seed}-{number}",
        "slices": slices,
        "classes": {"all": {}, "some": {"selectors": [{"cel": {"expression": rng.choice(EXPRESSIONS)}}]}},
        "claims": [build_claim(rng, name) for name in ("claim-a", "claim-b")[: rng.choice((1, 1, 1, 2))]],
        "allocated": allocated,
        "shared": shared,
    }


def _build_pool(rng: random.Random, name: str) -> list[Object]:
    has_counters = rng.random() < 0.3
    devices = [_build_device(rng, number, has_counters=has_counters) for number in range(rng.randint(2, 7))]
    contents: list[Object] = [{"devices": devices}]
    if len(devices) > 3 and rng.random() < 0.3:
        contents = [{"devices": devices[:2]}, {"devices": devices[2:]}]
    if has_counters:
        sets = [{"name": f"gpu-{n}", "counters": {"memory": {"value": "80Gi"}, "slots": {"value": "7"}}} for n in range(2)]
        contents.append({"sharedCounters": sets})
    missing = 1 if rng.random() < 0.03 else 0
    return [
        {
            "metadata": {"name": f"{name}-{number}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": NODE,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": len(contents) + missing},
                **content,
            },
        }
        for number, content in enumerate(contents)
    ]


def _build_device(rng: random.Random, number: int, *, has_counters: bool) -> Object:
    attributes = {name: {"int": rng.randint(1, most)} for name, most in (("a", 2), ("b", 2), ("c", 3), ("d", 9))}
    if rng.random() < 0.2:
        del attributes["c"]
    device: Object = {"name": f"gpu-{number}", "attributes": attributes}
    if rng.random() < 0.2:
        device["taints"] = [rng.choice(TAINTS)]
    if has_counters and rng.random() < 0.7:
        memory, slots = rng.choice((("80Gi", "7"), ("40Gi", "3"), ("10Gi", "1")))
        counters = {"memory": {"value": memory}, "slots": {"value": slots}}
        device["consumesCounters"] = [{"counterSet": f"gpu-{rng.randrange(2)}", "counters": counters}]
    if rng.random() < 0.5:
        device["capacity"] = {"memory": {"value": rng.choice(("40Gi", "80Gi"))}}
    if "capacity" in device and rng.random() < 0.25:
        device["allowMultipleAllocations"] = True
        if rng.random() < 0.5:
            span = {"min": "10Gi", "step": "10Gi"}
            device["capacity"]["memory"]["requestPolicy"] = {"default": "10Gi", "validRange": span}
    return device


def _take(rng: random.Random, devices: list[tuple[str, Object]]) -> tuple[list[Object], list[Object]]:
    """What others have, without drawing more than there is from any counter."""
    allocated: list[Object] = []
    shared: list[Object] = []
    drawn: set[tuple[str, str]] = set()
    for pool, device in devices:
        id_ = {"driver": DRIVER, "pool": pool, "device": device["name"]}
        sets = {(pool, each["counterSet"]) for each in device.get("consumesCounters", ())}
        if rng.random() > 0.25 or sets & drawn:
            continue
        drawn |= sets
        if device.get("allowMultipleAllocations"):
            share = f"00000000-0000-4000-8000-{rng.randrange(1 << 40):012x}"
            shared.append({**id_, "shareID": share, "consumed": {"memory": rng.choice(("10Gi", "30Gi"))}})
        else:
            allocated.append(id_)
    return allocated, shared


def build_claim(rng: random.Random, name: str, expressions: Sequence[str] = EXPRESSIONS, attributes: str = "abcd") -> Object:
    """A claim that selects by these expressions and is constrained by these attributes."""
    requests = [_build_request(rng, f"r{number}", expressions) for number in range(rng.choice((1, 1, 2, 2, 3)))]
    names = [each["name"] for each in requests]
    names += [f"{each['name']}/{sub['name']}" for each in requests for sub in each.get("firstAvailable", ())]
    constraints = [_build_constraint(rng, names, attributes) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    devices: Object = {"requests": requests, **({"constraints": constraints} if constraints else {})}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}


def _build_constraint(rng: random.Random, names: list[str], attributes: str) -> Object:
    constraint: Object = {
        rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): f"{DRIVER}/{rng.choice(attributes)}"
    }
    if rng.random() < 0.4:
        constraint["requests"] = sorted(rng.sample(names, rng.randint(1, len(names))))
    return constraint


def _build_request(rng: random.Random, name: str, expressions: Sequence[str]) -> Object:
    if rng.random() < 0.25:
        subs = [{"name": f"s{number}", **_build_ask(rng, expressions)} for number in range(rng.randint(1, 3))]
        return {"name": name, "firstAvailable": subs}
    ask = _build_ask(rng, expressions)
    if rng.random() < 0.12:
        ask["adminAccess"] = True
    return {"name": name, "exactly": ask}


def _build_ask(rng: random.Random, expressions: Sequence[str]) -> Object:
    ask: Object = {"deviceClassName": rng.choice(("all", "all", "some"))}
    if rng.random() < 0.15:
        ask["allocationMode"] = "All"
    else:
        ask |= {"allocationMode": "ExactCount", "count": rng.choice((1, 1, 1, 2, 2, 3, 4))}
    if rng.random() < 0.3:
        ask["selectors"] = [{"cel": {"expression": rng.choice(expressions)}}]
    if rng.random() < 0.2:
        ask["tolerations"] = [rng.choice(TOLERATIONS)]
    if rng.random() < 0.15:
        ask["capacity"] = {"requests": {"memory": rng.choice(("10Gi", "15Gi", "40Gi", "80Gi"))}}
    return ask


def main() -> None:
    """Print the cases."""
    from hack.oracle_allocator.mig_cases import build_mig_case  # noqa: PLC0415  (it builds on this module)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mig", action="store_true", help="GPUs that claims divide")
    args = parser.parse_args()
    build = build_mig_case if args.mig else build_case
    for number in range(args.count):
        print(json.dumps(build(number, args.seed), separators=(",", ":")))


if __name__ == "__main__":
    main()
