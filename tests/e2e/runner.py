"""Runs scenarios one after the other, each on a clean node, and prints one line a scenario."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster import cluster
from hack.devcluster.layout import Layout
from tests.e2e import identity, manifests
from tests.e2e.kube import KubeApi
from tests.e2e.mock_fleet import MockFleet
from tests.e2e.objects import NAMESPACE
from tests.e2e.plugin import PluginFolders
from tests.e2e.release import Release
from tests.e2e.stage import Stage

_TAIL_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing that must be seen working. ``run`` returns what was seen, in a few words."""

    name: str
    run: Callable[[Stage], str]
    needs_minor: int = 34
    """The first Kubernetes 1.x that can do it."""
    needs_image: bool = False
    """The driver runs as pods."""


class Suite:
    """The scenarios of a file, in the order they are written."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []

    def add(
        self, name: str, *, needs_minor: int = 34, needs_image: bool = False
    ) -> Callable[[Callable[[Stage], str]], Callable[[Stage], str]]:
        """Make the decorated function the scenario ``name``."""

        def register(run: Callable[[Stage], str]) -> Callable[[Stage], str]:
            self.scenarios.append(Scenario(name=name, run=run, needs_minor=needs_minor, needs_image=needs_image))
            return run

        return register


def run_scenarios(stage: Stage, scenarios: Sequence[Scenario], dumps: Path, *, tries: int = 1) -> int:
    """Run all, print a line each, the sum, and once more what failed; how many failed.

    One that fails is begun again until ``tries`` are used up; one that passes then is told of as unsteady. However it ends, no
    process of the driver stays.
    """
    try:
        return _run_all(stage, scenarios, dumps, tries)
    finally:
        for process in (*stage.controllers, *stage.plugins):
            process.kill()


def _run_all(stage: Stage, scenarios: Sequence[Scenario], dumps: Path, tries: int) -> int:
    failed: list[str] = []
    unsteady: list[str] = []
    width = max(len(scenario.name) for scenario in scenarios)
    able = [scenario for scenario in scenarios if scenario.needs_minor <= stage.minor]
    for scenario in able:
        misses: list[str] = []
        while len(misses) < tries:
            began = time.monotonic()
            is_ok, seen = _run_one(stage, scenario, dumps)
            _print(f"{scenario.name:{width}}  {'ok  ' if is_ok else 'FAIL'}  {time.monotonic() - began:6.1f} s  {seen}")
            if is_ok:
                break
            misses.append(f"  {scenario.name}: {seen}")
        if misses:
            (failed if len(misses) == tries else unsteady).extend(misses)
    for scenario in scenarios:
        if scenario not in able:
            _print(f"{scenario.name:{width}}  n/a              needs Kubernetes 1.{scenario.needs_minor}")
    count = len(failed) // tries
    _print(f"{len(able) - count} passed, {count} failed")
    for title, lines in (("failed", failed), ("unsteady: passed when begun again", unsteady)):
        if lines:
            _print("\n".join([f"{title}:", *lines]))
    return count


def _run_one(stage: Stage, scenario: Scenario, dumps: Path) -> tuple[bool, str]:
    error: Exception | None = None
    seen = ""
    try:
        seen = scenario.run(stage)
    except Exception as err:  # noqa: BLE001 one scenario's failure must not hide the others'
        error = err
        dump_state(stage, scenario.name, traceback.format_exc(), dumps)
    try:
        stage.clear()
    except Exception as err:  # noqa: BLE001 as above
        if error is None:
            dump_state(stage, scenario.name, traceback.format_exc(), dumps)
        error = error or err
    return (True, seen) if error is None else (False, " ".join(f"{type(error).__name__}: {error}".split())[:600])


def dump_state(stage: Stage, name: str, trace: str, dumps: Path) -> None:
    """Write what helps to understand a failure into a folder of its own, and the ends of the logs to stderr."""
    folder = dumps / name.replace(" ", "-").replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"trace.txt": trace}
    logs = {each.log_path.name: each.log_path for each in (*stage.controllers, *stage.plugins)}
    logs |= {f"{part}.log": stage.layout.logs / f"{part}.log" for part in ("kubelet", "containerd", "scheduler", "kcm")}
    for file, path in logs.items():
        texts[file] = path.read_text(errors="replace") if path.exists() else "(none)"
    for file, arguments in _QUESTIONS.items():
        texts[file] = cluster.run_kubectl(stage.layout, *arguments).stdout
    listed = [stage.folders.plugin_dir, stage.folders.cdi_root, stage.folders.registry]
    texts["files.txt"] = "\n".join(str(path) for top in listed if top.is_dir() for path in sorted(top.rglob("*")))
    for file, text in texts.items():
        (folder / file).write_text(text)
    sys.stderr.write(f"--- {name} failed; everything is in {folder}\n{trace}\n")
    for file in [*list(logs)[: len(stage.controllers) + len(stage.plugins)], "pods.txt"]:
        tail = "\n".join(texts[file].splitlines()[-_TAIL_LINES:])
        sys.stderr.write(f"--- the end of {file}\n{tail}\n")
    sys.stderr.flush()


_QUESTIONS = {
    "pods.txt": ("describe", "pods", "-n", NAMESPACE),
    "claims.yaml": ("get", "resourceclaims", "-n", NAMESPACE, "-o", "yaml"),
    "slices.yaml": ("get", "resourceslices", "-o", "yaml"),
    "events.txt": ("get", "events", "-A", "--sort-by=.lastTimestamp"),
}


def make_stage(layout: Layout) -> Stage:
    """A stage on the running cluster: our namespace, the device classes, the driver's account."""
    api = KubeApi(layout.admin_kubeconfig)
    for body in [manifests.namespace(NAMESPACE), *manifests.read_device_classes(with_extended_resource=False)]:
        api.apply(body)
    identity.write_accounts(api, Release(layout=layout).render("kubelet-plugin-rbac", "controller-rbac"))
    kubeconfigs = identity.write_kubeconfigs(api, layout)
    folders = PluginFolders(
        kubelet_root=layout.kubelet_root,
        cdi_root=layout.cdi_root,
        kubeconfig=kubeconfigs[identity.PLUGIN],
        node=layout.node,
        logs=layout.home / "plugin-logs",
    )
    return Stage(
        layout=layout,
        api=api,
        folders=folders,
        controller_kubeconfig=kubeconfigs[identity.CONTROLLER],
        fleet=MockFleet(layout=layout, api=api),
    )


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
