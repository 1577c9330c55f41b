"""What fits where is what kube-scheduler's own filters say (hack/oracle_fit made the answers)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.controller.deciding.fit_oracle import judge, translate

GOLDEN = Path(__file__).parents[3] / "golden" / "fit" / "cases.jsonl"


def test_every_case_is_judged_as_kube_scheduler_judges_it() -> None:
    cases = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    wrong = [(case["id"], judge(case), theirs) for case in cases if judge(case) != (theirs := translate(case["kubernetes"]))]
    assert not wrong


def test_the_cases_are_worth_asking() -> None:
    """Every filter says no in some and all say yes in many."""
    answers = [json.loads(line)["kubernetes"] for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    said = {each.split()[0] for answer in answers for each in answer}
    assert {"affinity", "taint", "unschedulable", "port", "name", "cpu", "memory", "pods", "example.com/fpga"} <= said
    assert sum(not answer for answer in answers) > len(answers) // 8
