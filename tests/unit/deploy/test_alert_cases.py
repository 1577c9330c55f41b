"""``alerts.yaml`` has cases of every alert in promtool's form: held to the rules and to what is served, and run by promtool.

CI builds no promtool, so what always runs is the first part: a case cannot be about a series, a label or an alert
that there is not, and no alert can be without a case in which it fires and one in which it is silent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.queries import read_query
from tests.unit.deploy.test_metrics_files import ALERTS, SERVED, TARGET_LABELS, VALUES

FILE = Path(__file__).with_name("alerts.yaml")
CASES: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["tests"]
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")


def _count(alert: str) -> tuple[int, int]:
    """Moments in which the alert must fire, and in which it must not."""
    asked = [each for case in CASES for each in case.get("promql_expr_test", []) if f'alertname="{alert}"' in each["expr"]]
    firing = sum(bool(each["exp_samples"]) for each in asked)
    return firing, len(asked) - firing


@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_every_alert_fires_once_at_least_and_is_silent_once_at_least(alert: str) -> None:
    firing, silent = _count(alert)
    assert firing >= 1
    assert silent >= 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"])[:60])
def test_a_case_is_of_series_that_are_served(case: dict[str, Any]) -> None:
    for given in case["input_series"]:
        named = read_query(given["series"])
        ((series, labels),) = named.series
        assert series in SERVED
        assert labels <= SERVED[series] | TARGET_LABELS
        for name, label, value in named.values:
            known = VALUES.get((name, label))
            assert known is None or value in known, f"{name} never has {label}={value}"


def test_a_case_is_of_an_alert_that_there_is() -> None:
    names = {rule["alert"] for rule in ALERTS}
    named = {name for case in CASES for each in case.get("promql_expr_test", []) for name in _names_in(each["expr"])}
    assert named == names
    assert {each["alertname"] for case in CASES for each in case.get("alert_rule_test", [])} <= names


def _names_in(expr: str) -> list[str]:
    return re.findall(r'alertname="(\w+)"', expr)


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here")
def test_promtool_says_that_every_case_holds() -> None:
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(FILE)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
