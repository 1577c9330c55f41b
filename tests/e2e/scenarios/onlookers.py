"""Monitors of GPUs that claims divide, which come after the jobs: the controller serves them; without one, why they wait."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e import manifests, mig_view, objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import play
from tests.e2e.process import REPOSITORY
from tests.e2e.runner import Suite
from tests.e2e.scenarios.mig import FIRST_MINOR
from tests.e2e.stage import Stage, expect, is_waiting

SUITE = Suite()
_LABELLED = {
    **manifests.namespace(NAMESPACE),
    "metadata": {"name": NAMESPACE, "labels": {"resource.kubernetes.io/admin-access": "true"}},
}
_ALL_GPUS: Json = {"deviceClassName": objects.GPU_CLASS, "allocationMode": "All", "adminAccess": True}
_EVERYTHING = [{"operator": "Exists"}]


@SUITE.add("admin access: a monitor comes after the jobs to GPUs that claims divide", needs_minor=FIRST_MINOR)
def run_late_monitor(stage: Stage) -> str:
    """kube-scheduler finds no place for it; the controller gives it all GPUs; jobs go on, and go, and others come."""
    stage.api.apply(_LABELLED)
    with play(stage) as on:
        stage.start_plugin("hgx-h100-4", mig="auto")
        devices = objects.slice_devices(stage.wait_pool(devices=4 * 26))
        uuids = {str(objects.attribute(device, "uuid")) for name, device in devices.items() if "-mig-" not in name}
        stage.run_pod("part", objects.claim_spec([mig_view.request("3g.40gb")]))
        whole = stage.run_pod("whole", objects.claim_spec([objects.exactly()]))
        made = mig_view.read_instances(stage.folders)
        for name, more in (("monitor", {}), ("sick-too", {"tolerations": _EVERYTHING})):
            stage.create_pod(name, objects.claim_spec([{"name": "gpus", "exactly": {**_ALL_GPUS, **more}}]))
            expect(is_waiting(stage.api, name), f"{name} does not wait for the counters: is the exception needed no more?")
        said = _explain(stage, "monitor")
        on.start_controller()
        for name in ("monitor", "sick-too"):
            view = stage.wait_running(name)
            expect(set(view.uuids) == uuids, f"{name} sees {view.uuids} of {uuids}")
        on.wait_event("monitor", "4 devices on node", reason="ClaimPlaced")
        expect(mig_view.read_instances(stage.folders) == made, "the monitor changed what is there")
        stage.expect_own_devices("whole", stage.read_view("whole"))
        stage.delete_pods("whole")
        again = stage.run_pod("again", objects.claim_spec([objects.exactly(count=3)]))
        expect(set(whole.uuids) < set(again.uuids), f"the GPU of the pod that went is not given again: {again.uuids}")
        stage.delete_pods("monitor", "sick-too")
        expect(mig_view.read_instances(stage.folders) == made, "the monitor's end changed what is there")
        on.finish()
    return f"{len(uuids)} GPUs for each of 2 monitors beside jobs; explain: {said[:80]}"


def _explain(stage: Stage, pod: str) -> str:
    """What people are told before there is a controller: in one line what is done about it."""
    command = [sys.executable, "-m", "driver.cli.gpu.main", "explain", f"pod/{pod}", "-n", NAMESPACE]
    command += ["--kubeconfig", str(stage.layout.admin_kubeconfig)]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=60)
    text = " ".join(done.stdout.split())
    expect(done.returncode == 0 and "controller" in text, f"explain says {done.stdout} {done.stderr}")
    return text
