"""Ours beside Kubernetes' own allocator: a legal placement whenever that finds one, and never an illegal one.

The answers were made by the Go code that kube-scheduler runs; ``hack/oracle_allocator`` has it, and compares thousands more.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.allocator.legality import Object, find_faults
from tests.unit.allocator.oracle_cases import solve

GOLDEN = Path("tests/golden/allocator")
MIG_CASES: list[Object] = [json.loads(line) for line in (GOLDEN / "mig_cases.jsonl").read_text(encoding="utf-8").splitlines()]
CASES: list[Object] = [json.loads(line) for line in (GOLDEN / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


def placed_by_kubernetes(case: Object) -> list[list[Object]] | None:
    results = case["kubernetes"].get("results")
    return [each["devices"]["results"] for each in results] if results else None


@pytest.mark.parametrize("case", [*CASES, *MIG_CASES], ids=lambda case: case["id"])
def test_ours_places_what_kubernetes_places_and_legally(case: Object) -> None:
    mine, _ = solve(case)
    theirs = placed_by_kubernetes(case)
    assert theirs is None or mine is not None
    assert mine is None or find_faults(case, mine) == []


def test_the_judge_finds_nothing_wrong_with_kubernetes() -> None:
    """Or it would judge ours by rules that nobody has."""
    for case in (*CASES, *MIG_CASES):
        theirs = placed_by_kubernetes(case)
        assert theirs is None or find_faults(case, theirs) == [], case["id"]


def test_the_cases_have_both_answers() -> None:
    """Enough of each that the tests above mean something."""
    answers = Counter(placed_by_kubernetes(case) is not None for case in CASES)
    assert min(answers[True], answers[False]) >= 50
    kinds = json.dumps(CASES)
    for word in ("adminAccess", "firstAvailable", "matchAttribute", "distinctAttribute", "sharedCounters", "shareID", "All"):
        assert word in kinds


def test_the_cases_of_partitions_have_both_answers() -> None:
    answers = Counter(placed_by_kubernetes(case) is not None for case in MIG_CASES)
    assert min(answers[True], answers[False]) >= 10
    assert any(len(case["claims"]) > 1 and placed_by_kubernetes(case) for case in MIG_CASES)
    assert any(case["allocated"] and placed_by_kubernetes(case) for case in MIG_CASES)


def test_the_judge_sees_what_is_wrong() -> None:
    """Each fault of a legal answer is found."""
    case = next(
        each
        for each in CASES
        if (placed_by_kubernetes(each) or [[]])[0] and not each["slices"][0]["spec"].get("sharedCounters")
    )
    theirs = placed_by_kubernetes(case)
    assert theirs is not None
    first = theirs[0][0]
    for broken in (
        [[], *theirs[1:]],
        [[{**first, "request": "other"}, *theirs[0][1:]], *theirs[1:]],
        [[{**first, "tolerations": [{"key": "z"}]}, *theirs[0][1:]], *theirs[1:]],
        [[{**first, "adminAccess": not first.get("adminAccess", False)}, *theirs[0][1:]], *theirs[1:]],
        [[*theirs[0], first], *theirs[1:]],
    ):
        assert find_faults(case, broken), broken
