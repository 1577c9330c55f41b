"""Random pods, nodes and pods on them, as JSON lines for the oracle: ``python -m hack.oracle_fit.cases COUNT SEED``.

Values are few, so that things meet; some are such as the API server would refuse, and kube-scheduler has an answer to them too.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_KEYS = ("zone", "gen", "example.com/x", "node.kubernetes.io/unschedulable")
_VALUES = ("", "a", "b", "7", "007", "10", "-3", "no value")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_CPUS = ("0", "1m", "500u", "250m", "1", "1500m", "2", "3.1")
_BYTES = ("0", "1", "100m", "1Gi", "1536Mi", "2G", "1e9")
_COUNTS = ("0", "1", "2", "1k")
_RESOURCES = {
    "cpu": _CPUS,
    "memory": _BYTES,
    "ephemeral-storage": _BYTES,
    "example.com/fpga": _COUNTS,
    "hugepages-2Mi": ("0", "2Mi", "4Mi"),
    "kubernetes.io/odd": _COUNTS,
    "attachable-volumes-x": _COUNTS,
    "unqualified": _COUNTS,
}
_ADDRESSES = ("", "0.0.0.0", "10.0.0.1", "10.0.0.2")


def build_case(number: int, seed: int) -> dict[str, Any]:
    """One case, the same for the same number and seed."""
    rng = random.Random(f"{seed}/{number}")
    node = _node(rng)
    others = [_pod(rng, f"other-{at}", is_small=True) for at in range(rng.choice((0, 0, 1, 2, 3)))]
    return {"id": f"{seed}-{number}", "pod": _pod(rng, "job", is_small=False), "node": node, "others": others}


def _some(rng: random.Random, most: int, build: Callable[[], T]) -> list[T]:
    return [build() for _ in range(rng.randrange(most + 1))]


def _maybe(rng: random.Random, chance: float, build: Callable[[], T]) -> T | None:
    return build() if rng.random() < chance else None


def _node(rng: random.Random) -> dict[str, Any]:
    amounts = {
        "cpu": rng.choice(("4", "6500m", "16", "16")),
        "memory": rng.choice(("4G", "8Gi", "16Gi")),
        "ephemeral-storage": rng.choice(("8Gi", "16Gi")),
        "pods": rng.choice(("0", "3", "110", "110", "110", "110", "110", "110")),
        "example.com/fpga": rng.choice(("4", "1k", "10k")),
        "hugepages-2Mi": "8Mi",
        "kubernetes.io/odd": "2k",
        "attachable-volumes-x": "2k",
        "unqualified": "1",
    }
    kept = {name: amount for name, amount in amounts.items() if rng.random() < 0.97}
    return {
        "metadata": {"name": rng.choice(("node-a", "node-b")), "labels": _labels(rng)},
        "spec": _full(
            taints=_some(
                rng, 1, lambda: {"key": rng.choice(_KEYS), "value": rng.choice(_VALUES), "effect": rng.choice(_EFFECTS)}
            ),
            unschedulable=rng.random() < 0.1,
        ),
        "status": {"allocatable": kept},
    }


def _labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(_VALUES[:-1]) for key in _KEYS if rng.random() < 0.6}


def _pod(rng: random.Random, name: str, *, is_small: bool) -> dict[str, Any]:
    containers = [_container(rng, is_small=is_small) for _ in range(rng.choice((1, 1, 2)))]
    spec = _full(containers=containers, initContainers=_some(rng, 3, lambda: _init_container(rng, is_small=is_small)))
    if rng.random() < 0.1:
        spec["overhead"] = _amounts(rng, 2)
    if rng.random() < 0.2:
        spec["resources"] = {"requests": _amounts(rng, 3)}
    if not is_small:
        spec |= _wishes(rng)
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


def _wishes(rng: random.Random) -> dict[str, Any]:
    terms = _maybe(rng, 0.25, lambda: _some(rng, 3, lambda: _term(rng)))
    affinity = None if terms is None else {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    return _full(
        nodeName=_maybe(rng, 0.05, lambda: "node-a"),
        nodeSelector=_maybe(rng, 0.1, lambda: {rng.choice(_KEYS): rng.choice(_VALUES)}),
        affinity=affinity,
        tolerations=_some(rng, 2, lambda: _toleration(rng)),
    )


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _term(rng: random.Random) -> dict[str, Any]:
    expressions = _some(rng, 2, lambda: _requirement(rng, _KEYS, _VALUES, _OPERATORS))
    names = ("node-a", "node-b", "")
    fields = _some(rng, 1, lambda: _requirement(rng, ("metadata.name",), names, ("In", "In", "NotIn", "Exists")))
    return _full(matchExpressions=expressions, matchFields=fields)


def _requirement(rng: random.Random, keys: Sequence[str], values: Sequence[str], operators: Sequence[str]) -> dict[str, Any]:
    operator = rng.choice(operators)
    count = 0 if operator.endswith("xist") or operator == "Exists" else 1
    if rng.random() < 0.15:
        count = rng.randrange(3)
    return {"key": rng.choice(keys), "operator": operator, "values": [rng.choice(values) for _ in range(count)]}


def _toleration(rng: random.Random) -> dict[str, Any]:
    return _full(
        key=rng.choice(("", *_KEYS)),
        operator=rng.choice(("", "Equal", "Exists", "Exists", "Lt", "Gt", "Like")),
        value=rng.choice(_VALUES),
        effect=rng.choice(("", "", *_EFFECTS)),
    )


def _init_container(rng: random.Random, *, is_small: bool) -> dict[str, Any]:
    return _container(rng, is_small=is_small) | _full(restartPolicy=_maybe(rng, 0.5, lambda: "Always"))


def _container(rng: random.Random, *, is_small: bool) -> dict[str, Any]:
    ports = _some(rng, 1, lambda: _port(rng)) if rng.random() < 0.5 else []
    return {"name": "c", "resources": {"requests": _amounts(rng, 2 if is_small else 3)}, "ports": ports}


def _port(rng: random.Random) -> dict[str, Any]:
    host_port = rng.choice((0, 80, 81))
    protocol = rng.choice(("", "TCP", "UDP"))
    return _full(containerPort=80, hostPort=host_port, protocol=protocol, hostIP=rng.choice(_ADDRESSES))


def _amounts(rng: random.Random, most: int) -> dict[str, str]:
    names = rng.sample(sorted(_RESOURCES), rng.randrange(most + 1))
    return {name: rng.choice(_RESOURCES[name]) for name in names}


def _full(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], False, 0)}


if __name__ == "__main__":
    for line in range(int(sys.argv[1])):
        print(json.dumps(build_case(line, int(sys.argv[2]))))
