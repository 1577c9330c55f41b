"""MIG devices by claim: what a pod sees, layouts that fit and do not, instances of an administrator."""

from __future__ import annotations

import time
from pathlib import Path

from driver.nvml.mock import open_mock
from tests.component.node.mig_node import destroy_all, make, switch_mode
from tests.e2e import manifests, mig_view, objects
from tests.e2e.kube import Json
from tests.e2e.mig_view import request
from tests.e2e.objects import NAMESPACE
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
FIRST_MINOR = 36
"""Older API servers keep no shared counters."""
_SAME_GPU = objects.same("parentUUID")


def write_machine(folder: Path, *, board: str, count: int) -> Path:
    """A machine of so many GPUs of one kind."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{board}-{count}.yaml"
    addresses = ", ".join(f'"{number + 1:02x}:00.0"' for number in range(count))
    path.write_text(
        f"name: {board}-{count}\ndescription: for MIG\ndriver: 580.159.04\ncuda: '13.0'\n"
        f"gpus:\n  - {{board: {board}, numa: 0, root: pci0000:00, pci: [{addresses}]}}\n"
    )
    return path


@SUITE.add("MIG: a pod sees its own part of a GPU, another the whole of the next", needs_minor=FIRST_MINOR)
def run_one_of_each(stage: Stage) -> str:
    """The variable, the capabilities and nvidia-smi say the instance that was made; it goes with the pod."""
    stage.start_plugin("hgx-h100-4", mig="auto")
    devices = dict(objects.slice_devices(stage.wait_pool(devices=4 * 26)))
    view = stage.run_pod("part", objects.claim_spec([request("3g.40gb")]))
    (instance,) = mig_view.read_instances(stage.folders)
    (name,) = objects.allocated_devices(stage.read_claim_of("part"))
    expect(mig_view.parse_instance(devices[name]) == instance, f"{name} was allocated, and {instance} made")
    expect(len(view.uuids) == 1 and view.uuids[0].startswith("MIG-"), f"the pod is told of {view.uuids}")
    expect(view.smi_uuids == view.uuids, f"nvidia-smi lists {view.smi_uuids}, the variables say {view.uuids}")
    expect(len(view.gpu_nodes) == 1, f"the pod has the nodes {view.gpu_nodes}")
    whole = stage.run_pod("whole", objects.claim_spec([objects.exactly()]))
    stage.expect_own_devices("whole", whole)
    expect(set(whole.gpu_nodes).isdisjoint(view.gpu_nodes), "the whole GPU is the one that was divided")
    stage.delete_pods("part", "whole")
    expect(mig_view.read_instances(stage.folders) == [], "an instance is left")
    return f"{name} as {view.uuids[0]}"


@SUITE.add("MIG: layouts that fit on one GPU are placed, others wait with a reason", needs_minor=FIRST_MINOR)
def run_layouts(stage: Stage) -> str:
    """Each layout is one claim on a machine of one H100, so that kube-scheduler has to find the places."""
    stage.start_plugin(str(write_machine(stage.folders.logs, board="h100-sxm5-80gb", count=1)), mig="auto")
    devices = dict(objects.slice_devices(stage.wait_pool(devices=26)))
    for number, (layout, is_possible) in enumerate(_LAYOUTS):
        pod = f"layout-{number}"
        spec = objects.claim_spec([request(profile, f"r{place}") for place, profile in enumerate(layout)], [_same(layout)])
        stage.create_pod(pod, spec)
        if is_possible:
            stage.wait_running(pod)
            mig_view.expect_equal(stage, [pod], devices)
            expect(len(mig_view.read_instances(stage.folders)) == len(layout), f"{layout} is not all there")
        else:
            expect(is_waiting(stage.api, pod), f"{layout} cannot be placed, and is not said to wait")
            message = _read_reason(stage, pod)
            expect("cannot allocate all claims" in message, f"the reason why {layout} waits is {message!r}")
            expect(mig_view.read_instances(stage.folders) == [], f"something was made for {layout}")
        stage.delete_pods(pod)
    return f"{sum(fits for _, fits in _LAYOUTS)} layouts placed, {sum(not fits for _, fits in _LAYOUTS)} wait"


_LAYOUTS: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("1g.10gb",) * 4, True),
    (("1g.10gb",) * 7, True),
    (("1g.10gb",) * 3 + ("4g.40gb",), True),
    (("3g.40gb", "4g.40gb"), True),
    (("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"), True),
    (("1g.20gb",) * 4, True),
    (("4g.40gb", "4g.40gb"), False),
    (("1g.10gb",) * 8, False),
    (("1g.20gb",) * 4 + ("1g.10gb",), False),
    (("1g.10gb+me", "1g.10gb+me"), False),
)


def _same(layout: tuple[str, ...]) -> Json:
    return objects.same("parentUUID", *(f"r{place}" for place in range(len(layout))))


def _read_reason(stage: Stage, pod: str) -> str:
    body = stage.api.get("Pod", NAMESPACE, pod) or {}
    conditions = body.get("status", {}).get("conditions", [])
    return " ".join(str(each.get("message", "")) for each in conditions if each["type"] == "PodScheduled")


@SUITE.add("MIG: devices that an administrator makes appear and go without a restart")
def run_reconfiguration(stage: Stage) -> str:
    """The plugin starts on a GPU in MIG mode without devices; a pod waits; mig-parted makes them; later others (B46)."""
    machine = str(write_machine(stage.folders.logs, board="a100-sxm4-40gb", count=2))
    library = open_mock(machine, stage.folders.mock_state).library
    library.init()
    # Ampere's mode comes with the next boot; here it is the machine's first.
    Path(machine).write_text(Path(machine).read_text().replace("pci: [", "mig: {enabled: true}, pci: ["))
    library = open_mock(machine, stage.folders.mock_state).library
    library.init()
    plugin = stage.start_plugin(machine, mig="auto")
    stage.wait_pool(devices=0)
    stage.create_pod("waiting", objects.claim_spec([request("1g.5gb")]))
    expect(is_waiting(stage.api, "waiting"), "the pod does not wait though there is no MIG device")
    for profile, start in ((9, 0), (19, 4), (19, 5)):
        make(library, 0, profile, start)
    began = time.monotonic()
    stage.wait_pool(devices=3)
    took_s = time.monotonic() - began
    view = stage.wait_running("waiting")
    (name,) = objects.allocated_devices(stage.read_claim_of("waiting"))
    expect(view.uuids == (str(_uuid_of(stage, name)),), f"{name} was allocated, and the pod is told of {view.uuids}")
    make(library, 1, 0, 0)
    stage.wait_pool(devices=4)
    destroy_all(library, 1)
    stage.wait_pool(devices=3)
    expect(name in objects.slice_devices(stage.wait_pool()), f"{name} is in use, and has another name now")
    stage.delete_pods("waiting")
    expect(len(mig_view.read_instances(stage.folders)) == 3, "an administrator's instance was touched")
    expect(plugin.is_running(), "the plugin has ended")
    switch_mode(library, 1, enabled=True)
    return f"3 devices {took_s:.1f} s after they were made, {name} kept its name"


def _uuid_of(stage: Stage, name: str) -> object:
    return objects.attribute(objects.slice_devices(stage.wait_pool())[name], "uuid")


_EXAMPLES = {"mig-side-by-side": {"train": 1, "serve": 1, "look": 1}}
"""What each container of an example sees; one device where nothing is said."""


@SUITE.add("MIG: every example of deploy/examples/mig does what it says", needs_minor=FIRST_MINOR)
def run_examples(stage: Stage) -> str:
    """One after the other on H100; each container sees MIG devices of its own."""
    stage.start_plugin("hgx-h100-4", mig="auto")
    stage.wait_pool(devices=4 * 26)
    seen = []
    for path in sorted((manifests.EXAMPLES / "mig").glob("mig-*.yaml")):
        documents = [manifests.fit_example(document, NAMESPACE) for document in manifests.read_documents(path)]
        for document in documents:
            stage.api.apply(document)
        stage.wait_pod(path.stem, objects.is_running, what="running")
        views = {name: stage.read_view(path.stem, name) for name in _EXAMPLES.get(path.stem, {"main": 1})}
        for name, view in views.items():
            expect(len(view.uuids) == 1 and view.uuids[0].startswith("MIG-"), f"{path.stem}/{name} is told of {view.uuids}")
            expect(view.smi_uuids == view.uuids, f"{path.stem}/{name}: nvidia-smi lists {view.smi_uuids}")
        expect(len({view.uuids for view in views.values()}) == len(views), f"containers of {path.stem} share a device")
        made = mig_view.read_instances(stage.folders)
        expect(len(made) == len(views), f"{path.stem} came to {made}")
        seen.append(path.stem)
        stage.delete_pods(path.stem)
    return ", ".join(seen)
