"""Dashboards and rules name what the two halves serve, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from driver.controller.metrics import WaitReason
from driver.health.model import Kind
from driver.node.metrics.view import PREPARED
from driver.resourceslice.publish_reports import PublishState
from hack.docs.dashboards import DASHBOARDS, build_dashboard, render_dashboard
from hack.docs.metrics import list_controller_figures, list_node_figures, render_metrics_page
from tests.unit.deploy.helm import needs_helm, of_kind, render
from tests.unit.deploy.queries import list_joined, read_query

ROOT = Path(__file__).parents[3]
FILES = ROOT / "deploy"
RULES = yaml.safe_load((FILES / "rules" / "gpu-dra.yaml").read_text())
RULE_LIST: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULE_LIST if "alert" in rule]
BOARDS = {path.name: json.loads(path.read_text()) for path in sorted((FILES / "dashboards").glob("*.json"))}
TARGET_LABELS = {"node", "instance"}
"""Those that the scrape gives: docs/metrics.md."""


def list_served() -> dict[str, frozenset[str]]:
    """Labels by series."""
    served = {
        name: frozenset(figure.labels) | ({"le"} if figure.kind == "histogram" else frozenset())
        for figure in (*list_node_figures(), *list_controller_figures())
        for name in figure.series
    }
    holder = served["gpu_dra_gpu_holder"]
    recorded = {rule["record"]: holder for rule in RULE_LIST if "record" in rule}
    process = dict.fromkeys(("process_resident_memory_bytes", "process_open_fds"), frozenset[str]())
    return served | recorded | process


SERVED = list_served()


def list_expressions() -> Iterator[tuple[str, str]]:
    for rule in RULE_LIST:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]


EXPRESSIONS = list(list_expressions())


@pytest.mark.parametrize(("where", "expr"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_every_series_and_label_is_served(where: str, expr: str) -> None:
    named = read_query(expr)
    for series, labels in named.series:
        assert series in SERVED, f"nobody serves {series}"
        assert labels <= SERVED[series] | TARGET_LABELS, f"{series} has no label {labels - SERVED[series] - TARGET_LABELS}"
    known = frozenset().union(*(SERVED[series] for series, _ in named.series)) | TARGET_LABELS
    assert named.labels <= known, f"no series here has {named.labels - known}"


VALUES: dict[tuple[str, str], set[str]] = {
    ("gpu_dra_waiting_claims", "reason"): {each.value for each in WaitReason},
    ("gpu_dra_gpus", "state"): {"free", "allocated", "unavailable", "unfenced"},
    ("gpu_dra_node_publish_state", "state"): {each.value for each in PublishState},
    ("gpu_dra_gpu_trouble", "kind"): {each.value for each in Kind},
    ("gpu_dra_gpu_trouble", "severity"): {"fault", "warning"},
    ("gpu_dra_build_info", "component"): {"kubelet-plugin", "controller"},
    **{(series, "outcome"): {"ok", "error"} for series in SERVED if series.startswith("gpu_dra_node_claim_seconds")},
    **{(series, "operation"): {"prepare", "unprepare"} for series in SERVED if series.startswith("gpu_dra_node_step_seconds")},
    **{
        (series, "type"): {"gpu", "mig", "share", "admin"}
        for series in SERVED
        if series in {"gpu_dra_gpu_holder", PREPARED.name} or series.startswith("gpu_dra:")
    },
}
"""The values that a label can have, where a query asks for one."""


@pytest.mark.parametrize(("where", "expr"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_every_value_that_is_asked_for_can_be(where: str, expr: str) -> None:
    for series, label, value in read_query(expr).values:
        assert value in VALUES[series, label], f"{series} never has {label}={value}"


@pytest.mark.parametrize(("where", "expr"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_a_join_has_one_line_for_each_gpu_also_while_a_plugin_is_updated(where: str, expr: str) -> None:
    """Two instances of a node make two lines, and Prometheus drops the rule for all nodes.

    https://github.com/kubernetes-sigs/kubernetes-mixin/issues/1092, https://github.com/gardener/gardener/pull/7097
    """
    for joined in list_joined(expr):
        assert isinstance(joined, promql_parser.AggregateExpr) or "gpu_dra_build_info" in expr, where


def test_no_leader_is_told_of_also_when_no_controller_is_left_to_say_so() -> None:
    """What is gone has no series, and nothing is not other than 1. https://github.com/JiRaska/open-bank-oss/pull/1439."""
    (rule,) = [rule for rule in ALERTS if rule["alert"] == "GpuDraNoLeader"]
    assert "or 0 * sum(max_over_time(gpu_dra_leader[6h]))" in rule["expr"]


@needs_helm
def test_the_monitor_finds_one_service() -> None:
    """Else each controller is scraped twice. https://github.com/qdrant/qdrant-helm/issues/207."""
    objects = render("--set=metrics.serviceMonitor=true")
    wanted = of_kind(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    services = [each for each in objects if each["kind"] == "Service" and wanted.items() <= each["metadata"]["labels"].items()]
    assert [each["spec"]["ports"][0]["name"] for each in services] == ["http"]


@pytest.mark.parametrize("name", BOARDS)
def test_lines_of_gpus_name_their_node(name: str) -> None:
    """GPU 0 of which node? https://github.com/NVIDIA/dcgm-exporter/issues/630."""
    for panel in BOARDS[name]["panels"]:
        for target in panel["targets"]:
            assert "{{gpu}}" not in target.get("legendFormat", "") or "{{node}}" in target["legendFormat"], panel["title"]


def test_no_series_has_more_labels_than_backends_take() -> None:
    """Mimir takes 30, and the scrape adds its own. https://github.com/NVIDIA/dcgm-exporter/issues/585."""
    assert max(len(labels) for labels in SERVED.values()) <= 10


def test_names_of_rules_are_told_apart() -> None:
    names = [rule.get("alert") or rule["record"] for rule in RULE_LIST]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"GpuDra([A-Z][a-z]+)+", rule["alert"]) for rule in ALERTS)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_is_wrong_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), flags=re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alerts_text_names_labels_that_it_has(rule: dict[str, Any]) -> None:
    texts = " ".join(str(text) for text in rule["annotations"].values())
    named = read_query(rule["expr"])
    there = named.labels or frozenset().union(*(SERVED[series] for series, _ in named.series)) | TARGET_LABELS
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= there


def test_the_page_names_every_alert() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert {rule["alert"] for rule in ALERTS} == set(re.findall(r"`(GpuDra\w+)`", page))


def test_the_page_is_the_one_that_follows_from_the_code() -> None:
    """Run ``make docs`` when this fails."""
    assert (ROOT / "docs/metrics.md").read_text() == render_metrics_page()


def test_every_figure_has_a_meaning_and_a_name_of_ours() -> None:
    for figure in (*list_node_figures(), *list_controller_figures()):
        assert figure.name.startswith("gpu_dra_")
        assert figure.text
        assert "|" not in figure.text, "it would break the page's table"


def test_the_halves_share_no_name_but_the_builds() -> None:
    """One name with two meanings would be added up by whoever asks for it."""
    node, controller = ({each.name for each in figures} for figures in (list_node_figures(), list_controller_figures()))
    assert node & controller == {"gpu_dra_build_info"}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: str(each.uid))
def test_the_files_are_those_that_follow_from_the_table(dashboard: Any) -> None:
    """Run ``make docs`` when this fails."""
    assert (FILES / "dashboards" / f"{dashboard.uid.removeprefix('gpu-dra-')}.json").read_text() == render_dashboard(dashboard)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_side_by_side_within_the_width(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[name]["panels"]:
        grid = panel["gridPos"]
        cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
        assert not cells & taken, panel["title"]
        assert grid["x"] + grid["w"] <= 24, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_has_what_grafana_needs(name: str) -> None:
    board = BOARDS[name]
    variables = {each["name"] for each in board["templating"]["list"]}
    assert board["schemaVersion"] >= 39
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"], panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        text = json.dumps(panel)
        assert set(re.findall(r"\$\{?(\w+)\}?", text)) <= variables, panel["title"]
        for target in panel["targets"]:
            legends = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            named = read_query(target["expr"])
            there = named.labels or frozenset().union(*(SERVED[series] for series, _ in named.series))
            assert legends <= there | TARGET_LABELS, f"{panel['title']}: {legends - there}"


def test_variables_are_labels_of_their_metric() -> None:
    for dashboard in DASHBOARDS:
        for label, metric in dashboard.variables:
            assert label in SERVED[metric] | TARGET_LABELS
        assert build_dashboard(dashboard)["uid"] == dashboard.uid


def test_uids_and_titles_are_told_apart() -> None:
    for key in ("uid", "title"):
        assert len({board[key] for board in BOARDS.values()}) == len(BOARDS)
