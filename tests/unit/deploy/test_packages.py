"""The chart as a part of others, as a package, and as files that are copied: what users reported, with the right answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.unit.deploy.helm import CHART, needs_helm, of_kind, render, run_helm, template

pytestmark = needs_helm


@pytest.mark.parametrize(("enabled", "objects"), [(True, True), (False, False)])
def test_it_may_be_a_part_of_another_chart(tmp_path: Path, *, enabled: bool, objects: bool) -> None:
    """With a condition, whose value helm hands to us.

    https://github.com/traefik/traefik-helm-chart/issues/1640
    """
    parent = {"apiVersion": "v2", "name": "parent", "version": "1.0.0"}
    parent["dependencies"] = [{"name": "gpu-dra", "version": "0.1.0", "condition": "gpu-dra.enabled"}]  # type: ignore[assignment]
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(parent))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"global": {"team": "x"}, "gpu-dra": {"enabled": enabled}}))
    (tmp_path / "charts").mkdir()
    done = run_helm("package", str(CHART), "--destination", str(tmp_path / "charts"))
    assert done.returncode == 0, done.stderr
    assert bool(render(chart=tmp_path)) == objects


def test_a_package_has_what_the_tree_has(tmp_path: Path) -> None:
    """Classes, policies, rules and dashboards are links in the tree, and files in a package."""
    done = run_helm("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    everything = "--set=metrics.dashboards=true,metrics.prometheusRule=true,metrics.serviceMonitor=true"
    (package,) = tmp_path.glob("*.tgz")
    assert render(everything, chart=package) == render(everything)


@pytest.mark.parametrize("folder", ["admission", "dashboards", "deviceclasses", "rules"])
def test_a_chart_that_lost_a_link_is_refused(tmp_path: Path, folder: str) -> None:
    """A zip file, or a git without links, leaves a line of text, and the chart would come without classes or policies."""
    chart = tmp_path / "gpu-dra"
    shutil.copytree(CHART, chart)
    shutil.rmtree(chart / "files" / folder)
    (chart / "files" / folder).write_text(f"../../../{folder}")
    done = template(chart=chart)
    assert done.returncode == 1
    assert f"the chart's files/{folder} is empty: its link was lost on the way" in done.stderr


def test_a_lint_finds_nothing() -> None:
    done = run_helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_templates_of_alerts_are_prometheus_own() -> None:
    """Helm would take ``{{ $labels.node }}`` for its own."""
    rules = of_kind(render("--set=metrics.prometheusRule=true"), "PrometheusRule")
    texts = [rule["annotations"]["summary"] for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert any("{{ $labels." in text for text in texts)
    assert rules["spec"] == yaml.safe_load((CHART / "files" / "rules" / "gpu-dra.yaml").read_text())


def test_every_object_fits_into_the_annotation_of_kubectl_apply() -> None:
    """What is longer than 256 KiB cannot be applied.

    https://github.com/open-telemetry/opentelemetry-demo/issues/2139
    """
    for each in render("--set=metrics.dashboards=true,metrics.prometheusRule=true"):
        assert len(json.dumps(each)) < 200_000
