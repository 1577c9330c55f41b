"""Board by board: what is published is what the hardware has; what it can hold is placed, what it cannot waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.e2e import mig_view, objects
from tests.e2e.kube import Json
from tests.e2e.mig_tables import TABLES, BoardTable, Layout, Profile
from tests.e2e.runner import Suite
from tests.e2e.scenarios.mig import FIRST_MINOR, write_machine
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
_GIB_APART = 0.02
"""NVIDIA's tools cut two digits off."""


def _add(table: BoardTable) -> None:
    SUITE.add(f"MIG tables: {table.board}", needs_minor=FIRST_MINOR)(_build(table))


def _build(table: BoardTable) -> Callable[[Stage], str]:
    def run(stage: Stage) -> str:
        """One GPU of this board, in MIG mode from the start where that takes a reset; every layout is one claim."""
        machine = write_machine(stage.folders.logs, board=table.board, count=1)
        seen = _run_undivided(stage, table, machine) if table.needs_reset else ""
        stage.start_plugin(str(machine), mig="dynamic")
        parts = [(profile, start) for profile in table.profiles for start in profile.starts]
        slices = stage.wait_pool(devices=len(parts) + (not table.needs_reset))
        devices = dict(objects.slice_devices(slices))
        _expect_table(table, devices)
        waiting = [_create(stage, table, layout, f"no-{place}") for place, layout in enumerate(table.illegal)]
        for place, layout in enumerate(table.legal):
            pod = _create(stage, table, layout, f"yes-{place}")
            stage.wait_running(pod)
            mig_view.expect_equal(stage, [pod], devices)
            made = sorted(each.profile for each in mig_view.read_instances(stage.folders))
            expect(made == sorted(layout), f"for {layout} there is {made}")
            stage.delete_pods(pod)
        for pod, layout in zip(waiting, table.illegal, strict=True):
            expect(is_waiting(stage.api, pod), f"{_describe(table, layout)} cannot be, and is not said to wait")
        stage.delete_pods(*waiting)
        expect(mig_view.read_instances(stage.folders) == [], "something is left")
        expect(_is_mode_on(stage) == table.needs_reset, "the MIG mode is another than before")
        return f"{len(parts)} places as in the table, {len(table.legal)} layouts placed, {len(waiting)} wait{seen}"

    return run


def _run_undivided(stage: Stage, table: BoardTable, machine: Path) -> str:
    """With its mode off such a GPU is one device and stays so, though ``dynamic`` was asked for; the mode comes with a boot."""
    plugin = stage.start_plugin(str(machine), mig="dynamic")
    (device,) = objects.slice_devices(stage.wait_pool(devices=1)).values()
    view = stage.run_pod("whole", objects.claim_spec([objects.exactly()]))
    expect(view.uuids == (str(objects.attribute(device, "uuid")),), f"the pod is told of {view.uuids}")
    expect(not _is_mode_on(stage), f"{table.board} was switched into MIG mode")
    stage.delete_pods("whole")
    plugin.stop()
    stage.forget_plugin_state()
    machine.write_text(machine.read_text().replace("pci: [", "mig: {enabled: true}, pci: ["))
    return ", never switched"


def _expect_table(table: BoardTable, devices: dict[str, Json]) -> None:
    """Each place of each profile is a device that draws just these memory slices, and says what hardware says."""
    by_place = {mig_view.parse_place(name): device for name, device in devices.items() if "-mig-" in name}
    wanted = {(profile.number, start): profile for profile in table.profiles for start in profile.starts}
    expect(set(by_place) == set(wanted), f"places that differ: {sorted(set(by_place) ^ set(wanted), key=str)}")
    for (number, start), profile in wanted.items():
        device = by_place[number, start]
        fault = _find_fault(device, profile, start)
        expect(not fault, f"{device['name']}: {fault}")


def _find_fault(device: Json, profile: Profile, start: int) -> str:
    (draw,) = device["consumesCounters"]
    drawn = {name for name in draw["counters"] if name.startswith("memory-slice-")}
    if drawn != {f"memory-slice-{number}" for number in range(start, start + profile.size)}:
        return f"it draws {sorted(drawn)}"
    if objects.attribute(device, "profile") != profile.text:
        return f"its profile is {objects.attribute(device, 'profile')}, not {profile.text}"
    capacity = {name: each["value"] for name, each in device["capacity"].items()}
    if profile.multiprocessors is not None and int(capacity["multiprocessors"]) != profile.multiprocessors:
        return f"it has {capacity['multiprocessors']} multiprocessors, not {profile.multiprocessors}"
    gib = _read_gib(capacity["memory"])
    if profile.gib is not None and abs(gib - profile.gib) > _GIB_APART:
        return f"it has {gib:.2f} GiB, not {profile.gib}"
    return ""


def _read_gib(text: str) -> float:
    """Of a quantity as the API server keeps it: ``9984Mi``, ``16Gi``."""
    return int(text[:-2]) / {"Mi": 1024, "Gi": 1}[text[-2:]]


def _create(stage: Stage, table: BoardTable, layout: Layout, pod: str) -> str:
    texts = {profile.number: profile.text for profile in table.profiles}
    spec = objects.claim_spec([mig_view.request(texts[number], f"r{place}") for place, number in enumerate(layout)])
    stage.create_pod(pod, spec)
    return pod


def _describe(table: BoardTable, layout: Layout) -> str:
    texts = {profile.number: profile.text for profile in table.profiles}
    return " + ".join(texts[number] for number in layout)


def _is_mode_on(stage: Stage) -> bool:
    path = stage.folders.mock_state / "mig.json"
    gpus = json.loads(path.read_bytes())["gpus"] if path.exists() else {}
    return any(each["is_enabled"] for each in gpus.values())


for _table in TABLES:
    _add(_table)
