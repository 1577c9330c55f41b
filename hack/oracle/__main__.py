"""Answers of Kubernetes' own code to device selectors, to be compared with ours.

    python -m hack.oracle grow              ask it about expressions.txt and random selectors, and write the golden file
    python -m hack.oracle compare --seed 7  ask it about new random selectors, and show where we differ
    python -m hack.oracle bench             evaluations a second of both, in one run

A developer's tool: it builds a Go program (main.go) the first time. The tests read the golden file and need no Go.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hack.oracle.bench import bench
from hack.oracle.cases import GOLDEN, Case, read_case, write_case
from hack.oracle.go import ask
from hack.oracle.grammar import Generator
from hack.oracle.ours import answer_case

HERE = Path(__file__).parent
DRIVER = "gpu.example.com"
_MOST_CHARACTERS = 700
_ROUNDS = 3


def main() -> int:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.oracle", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=("grow", "compare", "bench"))
    parser.add_argument("--seed", type=int, default=1, help="seed of the random selectors (default: 1)")
    parser.add_argument("--count", type=int, default=3000, help="how many random selectors (default: 3000)")
    args = parser.parse_args()
    if args.command == "bench":
        return bench(read_devices()["plain"], DRIVER)
    random_cases = list(write_random(args.seed, args.count))
    if args.command == "compare":
        return compare(settle(random_cases))
    return grow([*read_expressions(), *random_cases])


def read_devices() -> dict[str, Any]:
    """The devices that cases name."""
    devices: dict[str, Any] = json.loads((HERE / "devices.json").read_text())
    return devices


def read_expressions() -> Iterator[Case]:
    """The written cases, on the device that fits and on the others where they are few enough to matter."""
    for line in (HERE / "expressions.txt").read_text().splitlines():
        if not line.strip() or line.startswith("# "):
            continue
        mark, _, rest = line.partition(" ")
        expr = rest if mark in ("L", "C") else line
        has_lists = mark == "L" or "links" in expr
        yield Case(expr, "lists" if has_lists else "plain", lists=mark == "L", consumable=mark != "C")
        if "device." in expr and not has_lists:
            for device in ("empty", "shared", "broken"):
                yield Case(expr, device, lists=False, consumable=mark != "C")


def write_random(seed: int, count: int) -> Iterator[Case]:
    """Random cases of a seed."""
    for number in range(count):
        has_lists = number % 5 == 0
        expr = Generator(seed * 1_000_003 + number, lists=has_lists).selector()
        if len(expr) <= _MOST_CHARACTERS:
            yield Case(expr, "lists" if has_lists else "plain", lists=has_lists, consumable=True)


def settle(cases: Iterable[Case]) -> list[Case]:
    """The cases with the oracle's answers. Costs that differ from run to run (Go's maps have no order) are left out."""
    asked = list(cases)
    devices = read_devices()
    rounds = [ask([case.question(devices, DRIVER) for case in asked]) for _ in range(_ROUNDS)]
    settled = []
    for case, *answers in zip(asked, *rounds, strict=True):
        kinds = {
            json.dumps([answer.get("compile_err") is not None, answer.get("eval_err") is not None, answer["match"]])
            for answer in answers
        }
        if len(kinds) == 1:
            settled.append(case.answered(answers[0], has_cost=len({answer["cost"] for answer in answers}) == 1))
    return settled


def grow(cases: list[Case]) -> int:
    """Write the golden file."""
    settled = settle(cases)
    GOLDEN.write_text("".join(write_case(case) for case in settled))
    print(f"{len(settled)} cases in {GOLDEN}")
    return compare([read_case(line) for line in GOLDEN.read_text().splitlines()])


def compare(cases: list[Case]) -> int:
    """Show where our answers differ; the exit code says whether any does."""
    devices = read_devices()
    wrong = 0
    for case in cases:
        ours = answer_case(case, devices, DRIVER)
        if ours != case.expected():
            wrong += 1
            print(f"{case.expr}\n    device {case.device}: ours {ours}, Kubernetes' {case.expected()}")
    print(f"{len(cases)} cases, {wrong} differ", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
