"""Evaluations of selectors a second, ours and Kubernetes' own, in one run: ``python -m hack.bench.cel_speed``.

Selectors of the golden file that compile and do not fail on their device (one in ten, or ``--every``), each so many times; and
the typical ones of ``hack.oracle.bench``. Needs Go the first time, to build the oracle. One JSON line for the golden selectors
and one for each typical one. ``ours`` is what the allocator calls; Kubernetes' figure has the making of the variables in
it, as kube-scheduler's has.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from driver.cel import EvaluationError, Features, SelectorError, compile_selector
from hack.oracle.__main__ import DRIVER, read_devices
from hack.oracle.bench import SELECTORS
from hack.oracle.go import run
from hack.oracle.ours import view_of

GOLDEN = Path("tests/golden/cel/grown.jsonl")
TARGET_PER_S = 200_000
_FEATURES = Features(consumable_capacity=True)


def read_golden(every: int) -> dict[str, tuple[str, str]]:
    """Expression and device of selectors that say true or false, by number."""
    lines = map(json.loads, GOLDEN.read_text(encoding="utf-8").splitlines())
    asked = [(line["expr"], line.get("device", "plain")) for line in lines if line["answer"] in ("true", "false")]
    return {str(number): each for number, each in enumerate(list(dict.fromkeys(asked))[::every])}


def measure(asked: Mapping[str, tuple[str, str]], repetitions: int) -> Iterator[tuple[str, float, float]]:
    """Of each that both answer: ours and theirs, a second."""
    devices = read_devices()
    questions = [
        {"id": name, "expr": expr, "driver": DRIVER, "device": devices[device], "cons": True}
        for name, (expr, device) in asked.items()
    ]
    answers = map(json.loads, run(questions, "-bench", str(repetitions)))
    theirs = {answer["id"]: float(answer["evaluations_per_s"]) for answer in answers}
    for name, (expr, device) in asked.items():
        try:
            matches, view = compile_selector(expr, features=_FEATURES).matches, view_of(devices[device], DRIVER)
            begun = time.perf_counter()
            for _ in range(repetitions):
                matches(view)
            ours = repetitions / (time.perf_counter() - begun)
        except (SelectorError, EvaluationError):
            continue
        if name in theirs:
            yield name, ours, theirs[name]


def build_total(rates: list[tuple[str, float, float]]) -> dict[str, Any]:
    """All of them one after the other, which the slowest decide, and the one in the middle."""
    ours = len(rates) / sum(1 / rate for _, rate, _ in rates)
    theirs = len(rates) / sum(1 / rate for _, _, rate in rates)
    return {
        "figure": "cel-golden",
        "selectors": len(rates),
        "ours_per_s": round(ours),
        "kubernetes_per_s": round(theirs),
        "ratio": round(ours / theirs, 2),
        "median_ours_per_s": round(median(rate for _, rate, _ in rates)),
        "median_kubernetes_per_s": round(median(rate for _, _, rate in rates)),
        "median_ratio": round(median(rate / other for _, rate, other in rates), 2),
        "target": {"median_ours_per_s": TARGET_PER_S},
    }


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--every", type=int, default=10, help="of so many golden selectors one (default: 10)")
    args = parser.parse_args()
    print(json.dumps(build_total(list(measure(read_golden(args.every), args.repetitions)))), flush=True)
    typical = {name: (expr, "plain") for name, expr in SELECTORS.items()}
    for name, ours, theirs in measure(typical, args.repetitions * 20):
        figure = {"figure": "cel-selector", "selector": name, "ours_per_s": round(ours), "kubernetes_per_s": round(theirs)}
        print(json.dumps({**figure, "ratio": round(ours / theirs, 2)}), flush=True)


if __name__ == "__main__":
    main()
