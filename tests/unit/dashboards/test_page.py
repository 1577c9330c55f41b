"""The page that stands in for Grafana: of our own dashboards, from answers as Prometheus gives them."""

from __future__ import annotations

import pytest

from hack.dashboards.asking import Series
from hack.dashboards.drawing import Content, Graph, Line, draw_page
from hack.dashboards.panels import Cell, Table, build_number, build_table, expand, name_line, show_value
from hack.docs.dashboards import DASHBOARDS, build_dashboard

HEALTH = next(build_dashboard(each) for each in DASHBOARDS if each.uid == "gpu-dra-health")
PANELS = {panel["title"]: panel for panel in HEALTH["panels"]}
NOW_S = 1_000_000.0


def series(value: float, /, **labels: str) -> Series:
    return Series(labels=labels, points=((NOW_S, value),))


WRONG = series(
    (NOW_S - 240) * 1000, node="a", gpu="gpu-1", uuid="GPU-1", product="H200", kind="xid", value="79", severity="fault"
)


def test_a_sick_gpu_is_one_red_row_that_names_it() -> None:
    table = build_table(PANELS["What is wrong"], [WRONG], NOW_S)
    assert table.titles == ("severity", "node", "GPU", "UUID", "product", "taint", "what", "since")
    assert table.rows == (
        (
            Cell(text="fault", color="red"),
            Cell(text="a"),
            Cell(text="gpu-1"),
            Cell(text="GPU-1"),
            Cell(text="H200"),
            Cell(text="gpu.nvidia.com/xid"),
            Cell(text="XID 79: the GPU fell off the bus"),
            Cell(text="4 minutes ago"),
        ),
    )


def test_pods_on_sick_gpus_are_named_with_their_claims() -> None:
    holder = series(1, node="a", gpu="g", uuid="U", product="H200", device="g", type="gpu", namespace="n", pod="p", claim="c")
    table = build_table(PANELS["Pods on sick GPUs"], [holder], NOW_S)
    assert dict(zip(table.titles, [cell.text for cell in table.rows[0]], strict=True)) == {
        "namespace": "n", "pod": "p", "claim": "c", "device": "g", "type": "gpu", "node": "a", "GPU": "g", "UUID": "U",
        "product": "H200",
    }  # fmt: skip


def test_a_value_that_has_no_words_stands_as_it_is() -> None:
    unknown = Series(labels={**WRONG.labels, "value": "9999", "severity": "warning"}, points=WRONG.points)
    row = build_table(PANELS["What is wrong"], [unknown], NOW_S).rows[0]
    assert (row[0], row[6]) == (Cell(text="warning", color="orange"), Cell(text="9999"))


@pytest.mark.parametrize(("count", "color"), [(0, "green"), (1, "red"), (3, "red")])
def test_a_lamp_is_green_at_nought_alone(count: int, color: str) -> None:
    assert build_number(PANELS["GPUs in trouble"], [series(count)], "__auto") == Cell(text=f"{count}", color=color)


def test_a_number_that_nobody_tells_is_no_nought() -> None:
    assert build_number(PANELS["GPUs in trouble"], [], "__auto") == Cell(text="No data")


def test_variables_and_legends_are_filled_in() -> None:
    assert expand('x{node=~"$node"} + ${other}', {"node": ".*"}) == 'x{node=~".*"} + ${other}'
    assert name_line("{{node}} {{gpu}}", {"node": "a", "gpu": "g"}) == "a g"
    assert name_line("__auto", {"__name__": "up", "b": "2", "a": "1"}) == "1, 2"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.87, "percentunit", "87 %"), (3 * 2**30, "bytes", "3 GiB"), (70, "celsius", "70 °C"),
     (12, "short", "12"), (1.5, "s", "1.5 s")],
)  # fmt: skip
def test_units(value: float, unit: str, text: str) -> None:
    assert show_value(value, unit) == text


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: str(each.uid))
def test_every_panel_of_every_dashboard_can_be_drawn(dashboard: object) -> None:
    """With what comes from outside made harmless."""
    built = build_dashboard(dashboard)  # type: ignore[arg-type]  # parametrize tells no types
    line = Line(name="<b>&", points=((0.0, 1.0), (10.0, 2.0)))
    contents: dict[str, Content] = {
        "stat": Cell(text="1", color="red"),
        "table": Table(titles=("a",), rows=((Cell(text="<script>", color="red"),),)),
        "timeseries": Graph(lines=(line,), from_s=0.0, to_s=10.0, unit="short"),
    }
    page = draw_page(built, [contents[panel["type"]] for panel in built["panels"]], "now")
    assert page.count("<section") == len(built["panels"])
    assert "<script>" not in page
    assert "<b>&" not in page


def test_what_has_nothing_to_show_says_so() -> None:
    nothing: list[Content] = [
        Table(titles=("a",), rows=()) if panel["type"] == "table" else "the query is wrong" for panel in HEALTH["panels"]
    ]
    page = draw_page(HEALTH, nothing, "now")
    assert (page.count("No data"), page.count("the query is wrong")) == (2, len(nothing) - 2)
