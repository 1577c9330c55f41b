"""Random cases of GPUs that claims divide, with the placements of real boards: see ``cases``, whose claims these have too.

Attribute ``a`` is the profile's compute slices (8 for the whole GPU), ``b`` the GPU, ``c`` the start, ``d`` something odd.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from driver.nvml.mock.catalogue import read_mig_tables
from driver.nvml.mock.document import MigProfileDocument, MigTableDocument
from hack.oracle_allocator.cases import DRIVER, NODE, TAINTS, build_claim

Object = dict[str, Any]

_TABLES = ("h100-80gb", "a100-40gb", "a30", "rtx-pro-6000")
_ENGINES = {"multiprocessors": "sm", "copy-engines": "ce", "decoders": "dec", "jpeg-engines": "jpeg", "ofa-engines": "ofa"}
_WHOLE = 8


def build_mig_case(number: int, seed: int) -> Object:
    """One case."""
    rng = random.Random(f"mig/{seed}/{number}")
    table = read_mig_tables()[rng.choice(_TABLES)]
    gpus = rng.choice((1, 2, 2, 3))
    devices = [device for gpu in range(gpus) for device in _build_gpu(rng, table, gpu)]
    rng.shuffle(devices)
    counters = _as_counters(_all(table))
    contents: list[Object] = [
        {"sharedCounters": [{"name": f"gpu-{gpu}", "counters": counters} for gpu in range(gpus)]},
        *({"devices": devices[at : at + 64]} for at in range(0, len(devices), 64)),
    ]
    values = sorted({profile.slices for profile in table.profiles} | {_WHOLE})
    expressions = [f'device.attributes["{DRIVER}"].a == {value}' for value in values]
    expressions += [f'device.attributes["{DRIVER}"].b == {gpu}' for gpu in range(gpus)]
    return {
        "id": f"mig-{seed}-{number}",
        "slices": [
            {
                "metadata": {"name": f"pool-{at}"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": NODE,
                    "pool": {"name": "pool", "generation": 1, "resourceSliceCount": len(contents)},
                    **content,
                },
            }
            for at, content in enumerate(contents)
        ],
        "classes": {"all": {}, "some": {"selectors": [{"cel": {"expression": rng.choice(expressions)}}]}},
        "claims": [
            _simplify(rng, build_claim(rng, name, expressions, "b"), expressions[: len(values)])
            for name in ("claim-a", "claim-b", "claim-c")[: rng.choice((1, 1, 2, 2, 3))]
        ],
        "allocated": _take(rng, devices, _all(table)),
        "shared": [],
    }


def _simplify(rng: random.Random, claim: Object, profiles: list[str]) -> Object:
    """Most requests name a profile and want few: partitions leave little room for more."""
    for request in claim["spec"]["devices"]["requests"]:
        for ask in (request.get("exactly"), *request.get("firstAvailable", ())):
            if ask is not None and rng.random() < 0.8:
                ask |= {"allocationMode": "ExactCount", "count": rng.choice((1, 1, 1, 2, 3))}
                ask["selectors"] = [{"cel": {"expression": rng.choice(profiles[:-1])}}]
                ask["deviceClassName"] = "all"
                ask.pop("capacity", None)
    return claim


def _build_gpu(rng: random.Random, table: MigTableDocument, gpu: int) -> list[Object]:
    devices = [_build_device(rng, f"gpu-{gpu}", gpu, _all(table), a=_WHOLE, c=0)]
    kept = rng.choice((0.3, 0.6, 1.0))
    for profile in table.profiles:
        for start in profile.starts:
            if rng.random() < kept:
                name = f"gpu-{gpu}-mig-{profile.id}-{start}"
                devices.append(_build_device(rng, name, gpu, _draw(profile, start), a=profile.slices, c=start))
    return devices


def _build_device(rng: random.Random, name: str, gpu: int, drawn: dict[str, int], **attributes: int) -> Object:
    attributes = {**attributes, "b": gpu, "d": rng.randint(1, 3)}
    device: Object = {
        "name": name,
        "attributes": {key: {"int": value} for key, value in attributes.items()},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": _as_counters(drawn)}],
        "capacity": {"memory": {"value": f"{drawn['multiprocessors']}Gi"}},
    }
    if rng.random() < 0.05:
        device["taints"] = [rng.choice(TAINTS)]
    return device


def _take(rng: random.Random, devices: list[Object], amounts: dict[str, int]) -> list[Object]:
    """What others have. Now and then more than there is, as after a driver that counts otherwise."""
    used: Counter[tuple[str, str]] = Counter()
    allocated = []
    is_careful = rng.random() < 0.9
    for device in rng.sample(devices, min(len(devices), rng.choice((0, 0, 1, 2, 4)))):
        drawn = device["consumesCounters"][0]
        needs = {(drawn["counterSet"], name): int(each["value"]) for name, each in drawn["counters"].items()}
        if is_careful and any(used[key] + need > amounts[key[1]] for key, need in needs.items()):
            continue
        used.update(needs)
        allocated.append({"driver": DRIVER, "pool": "pool", "device": device["name"]})
    return allocated


def _all(table: MigTableDocument) -> dict[str, int]:
    amounts = {f"memory-slice-{number}": 1 for number in range(table.memory_slices)}
    for profile in table.profiles:
        for name, amount in _engines(profile).items():
            amounts[name] = max(amounts.get(name, 0), amount)
    return amounts


def _draw(profile: MigProfileDocument, start: int) -> dict[str, int]:
    return {f"memory-slice-{number}": 1 for number in range(start, start + profile.size)} | _engines(profile)


def _engines(profile: MigProfileDocument) -> dict[str, int]:
    amounts = {name: int(getattr(profile, field)) for name, field in _ENGINES.items()}
    return {name: amount for name, amount in amounts.items() if amount}


def _as_counters(amounts: dict[str, int]) -> Object:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}
