"""The settings of the Prometheus that scenarios are watched by, and the page drawn from a server that answers as it does."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.prometheus import build_settings


def test_it_scrapes_as_the_page_of_metrics_says() -> None:
    """honor_labels: pod and namespace are those of who holds a GPU. The controller is of no node."""
    settings = build_settings({"gpu-dra-kubelet-plugin": 1, "gpu-dra-controller": 2}, "node-a")
    jobs = {job["job_name"]: job for job in settings["scrape_configs"]}
    assert jobs["gpu-dra-kubelet-plugin"]["honor_labels"] is True
    assert jobs["gpu-dra-kubelet-plugin"]["static_configs"] == [{"targets": ["127.0.0.1:1"], "labels": {"node": "node-a"}}]
    assert jobs["gpu-dra-controller"]["static_configs"] == [{"targets": ["127.0.0.1:2"], "labels": {}}]


def test_its_rules_are_those_that_are_shipped() -> None:
    (path,) = build_settings({}, "node-a")["rule_files"]
    assert Path(path).name == "gpu-dra.yaml"
    assert Path(path).is_file()
