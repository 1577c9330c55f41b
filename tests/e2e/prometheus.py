"""A real Prometheus that scrapes both halves of a scenario and evaluates the rules of ``deploy/``. The cluster does without."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from hack.dashboards.asking import Prometheus, PrometheusRefused
from hack.devcluster.processes import wait_until
from tests.e2e.process import REPOSITORY, ProcessFailed

SCRAPE_S = 2
"""Graphs of a few minutes need more than the usual two points a minute."""
_STARTS_WITHIN_S = 60.0


def find_program() -> str:
    """Where it is.

    Raises:
        ProcessFailed: it is not on this machine.
    """
    found = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
    if found is None:
        raise ProcessFailed("no prometheus on the PATH, nor $PROMETHEUS; on Debian: apt-get install prometheus")
    return found


@contextlib.contextmanager
def run_prometheus(folder: Path, ports: Mapping[str, int], node: str) -> Iterator[Prometheus]:
    """One that scrapes these ports of this machine by job; as docs/metrics.md says, with the label ``node``.

    Raises:
        ProcessFailed: it is not there, or does not start; the text names its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(build_settings(ports, node)))
    log_path, port = folder / "prometheus.log", find_port()
    command = [find_program(), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with log_path.open("ab") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    prometheus = Prometheus(url=f"http://127.0.0.1:{port}")
    try:
        if not wait_until(lambda: process.poll() is not None or _answers(prometheus), timeout_s=_STARTS_WITHIN_S):
            raise ProcessFailed(f"Prometheus does not answer; its log is {log_path}")
        if process.poll() is not None:
            raise ProcessFailed(f"Prometheus ended at once; its log is {log_path}")
        yield prometheus
    finally:
        process.terminate()
        process.wait()


def build_settings(ports: Mapping[str, int], node: str) -> dict[str, Any]:
    """Its settings file. The plugin's target has the node as a label, as the PodMonitor gives it; the controller's has none."""
    return {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": [str(REPOSITORY / "deploy/rules/gpu-dra.yaml")],
        "scrape_configs": [
            {
                "job_name": job,
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"node": node} if "plugin" in job else {}}],
            }
            for job, port in ports.items()
        ],
    }


def find_port() -> int:
    """One that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _answers(prometheus: Prometheus) -> bool:
    try:
        prometheus.read_alerts()
    except PrometheusRefused:
        return False
    return True
