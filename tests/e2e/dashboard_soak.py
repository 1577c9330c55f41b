"""XID 79 on GPU 3 as an operator sees it: a real Prometheus, the rules' alerts, and the dashboards drawn from its answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.nvml.mock.faults import Load, NeedsRecovery, XidEvent
from hack.dashboards.__main__ import read_page
from hack.dashboards.asking import Prometheus
from hack.devcluster.processes import wait_until
from tests.e2e import health_view, objects
from tests.e2e.play import play
from tests.e2e.process import REPOSITORY
from tests.e2e.prometheus import find_port, run_prometheus
from tests.e2e.stage import Stage, expect

SICK = 3
_SICK_DEVICE = "gpu-0000-61-00-0"
QUIET_S = 40.0
"""Graphs need a before and an after."""
FIRES_WITHIN_S = 150.0
"""The alert waits for a minute."""
BOARDS = ("health", "node", "fleet")
_WIDTH_PX, _HEIGHT_PX = 1520, {"health": 1330, "node": 1800, "fleet": 1100}


@dataclass(slots=True, kw_only=True)
class DashboardSeen:
    """What was seen, moment by moment. ``pages`` are the files, by moment and dashboard."""

    folder: Path
    alerts: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    pages: list[Path] = field(default_factory=list)


def run_dashboard(stage: Stage, folder: Path) -> DashboardSeen:
    """Healthy, sick until the alert fires, and well again; the pages of each moment lie in ``folder``."""
    port = find_port()
    seen = DashboardSeen(folder=folder)
    stage.start_plugin("dgx-h200", options=("--allocation", "controller", "--metrics-address", f"127.0.0.1:{port}"))
    with play(stage) as on:
        controller = on.start_controller()
        stage.run_pod("train-llama", objects.claim_spec([health_view.select(stage, _SICK_DEVICE)]))
        stage.run_pod("serve-bert", objects.claim_spec([objects.exactly(count=2)]))
        uuid = _read_uuid(stage)
        busy = [Load(gpu=gpu, percent=90, memory_percent=70, celsius=66, watts=610) for gpu in (SICK, 0, 1)]
        health_view.play(stage, *busy)
        ports = {"gpu-dra-kubelet-plugin": port, "gpu-dra-controller": controller.port}
        with run_prometheus(folder, ports, stage.layout.node) as prometheus:
            _look(seen, prometheus, "before", QUIET_S)
            expect(not seen.alerts["before"], f"alerts on a healthy node: {seen.alerts['before']}")
            health_view.play(stage, *busy, XidEvent(gpu=SICK, xid=79))
            _wait_alerts(prometheus, lambda firing: any("xid 79" in each for each in firing))
            _look(seen, prometheus, "sick", 0.0)
            _expect_named(seen, uuid, pod="train-llama")
            health_view.recover(stage, SICK, *busy, NeedsRecovery(gpu=SICK, action="none"))
            _wait_alerts(prometheus, lambda firing: not firing)
            _look(seen, prometheus, "well", QUIET_S)
            expect(not seen.alerts["well"], f"alerts after the recovery: {seen.alerts['well']}")
    return seen


def _read_uuid(stage: Stage) -> str:
    return str(objects.attribute(objects.slice_devices(stage.wait_pool())[_SICK_DEVICE], "uuid"))


def list_firing(prometheus: Prometheus) -> list[str]:
    """What each alert that fires says, with its severity."""
    return sorted(
        f"{each['labels']['alertname']} ({each['labels']['severity']}): {each['annotations']['summary']}"
        f" | {each['annotations'].get('description', '')}"
        for each in prometheus.read_alerts()
        if each["state"] == "firing"
    )


def _wait_alerts(prometheus: Prometheus, is_so: Callable[[list[str]], bool]) -> None:
    came = wait_until(lambda: is_so(list_firing(prometheus)), timeout_s=FIRES_WITHIN_S, interval_s=1.0)
    expect(came, f"alerts: {list_firing(prometheus)}; all: {prometheus.read_alerts()}")


def _look(seen: DashboardSeen, prometheus: Prometheus, moment: str, after_s: float) -> None:
    time.sleep(after_s)  # a graph shows time that went by
    seen.alerts[moment] = list_firing(prometheus)
    for board in BOARDS:
        dashboard = json.loads((REPOSITORY / f"deploy/dashboards/{board}.json").read_text())
        page = seen.folder / f"{moment}-{board}.html"
        page.write_text(read_page(dashboard, prometheus, 5.0))
        seen.pages.append(page)
        seen.rows.setdefault(moment, {})[board] = _ask_tables(dashboard, prometheus)
        take_picture(page, _HEIGHT_PX[board])


def _ask_tables(dashboard: Mapping[str, Any], prometheus: Prometheus) -> list[Any]:
    tables = [each for each in dashboard["panels"] if each["type"] == "table"]
    exprs = [each["targets"][0]["expr"].replace("$node", ".*") for each in tables]
    return [[dict(row.labels) for row in prometheus.ask(expr, time.time())] for expr in exprs]


def _expect_named(seen: DashboardSeen, uuid: str, *, pod: str) -> None:
    """Node, device, UUID, pod and claim of the sick GPU stand on the dashboard and in the alert."""
    wrong, pods = seen.rows["sick"]["health"]
    expect({each["value"] for each in wrong} == {"79", "node-reboot"}, f"wrong are {wrong}")
    expect(all((each["gpu"], each["uuid"]) == (_SICK_DEVICE, uuid) and each["node"] for each in wrong), f"{wrong}")
    named = [(each["pod"], each["gpu"], each["uuid"]) for each in pods]
    expect(named == [(pod, _SICK_DEVICE, uuid)] and pods[0]["claim"].startswith(pod), f"pods on sick GPUs: {pods}")
    text = next(each for each in seen.alerts["sick"] if "xid 79" in each)
    expect(all(word in text for word in (_SICK_DEVICE, uuid, pod)), f"the alert says: {text}")
    expect(seen.rows["before"]["health"] == [[], []], f"wrong before: {seen.rows['before']}")


def take_picture(page: Path, height_px: int) -> None:
    """A PNG beside the page, where there is a browser."""
    browser = shutil.which("chromium")
    if browser is not None:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={_WIDTH_PX},{height_px}"]
        shot = [browser, *options, f"--screenshot={page.with_suffix('.png')}", page.as_uri()]
        subprocess.run(shot, check=False, capture_output=True, timeout=120.0)


def build_report(seen: DashboardSeen, kube_version: str) -> str:
    """The moments in words, as Markdown."""
    moments: Sequence[tuple[str, str]] = (
        ("before", "Healthy"),
        ("sick", "XID 79 on GPU 3, until the alert fires"),
        ("well", "Recovered"),
    )
    told = "".join(f"\n## {title}\n\n{_tell(seen, moment)}" for moment, title in moments)
    moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return f"""# XID 79 on GPU 3, as an operator sees it

{moment}; `hack/devcluster/e2e.sh --soak dashboard`, Kubernetes {kube_version}: a mock DGX H200 that
is the controller's, two pods on it, and a real Prometheus that scrapes both halves every 2 s and evaluates
`deploy/rules/gpu-dra.yaml`. The pages are drawn by `hack/dashboards` from that Prometheus' answers to the queries of
`deploy/dashboards`. Grafana itself was not run. The run fails unless the tables and the alert name node, device, UUID,
pod and claim, and all of it is gone after the recovery.
{told}"""


def _tell(seen: DashboardSeen, moment: str) -> str:
    wrong, pods = seen.rows[moment]["health"]
    alerts = "".join(f"- {each}\n" for each in seen.alerts[moment]) or "- no alert fires\n"
    rows = "".join(f"- {json.dumps(each, sort_keys=True)}\n" for each in (*wrong, *pods)) or "- no GPU is sick\n"
    return f"Alerts:\n\n{alerts}\nRows of the dashboard of health:\n\n{rows}"
