"""Pods that share a GPU: by time slices, by MPS, by memory; and configs that are wrong."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driver.nvml.mock.compute_modes import read_time_slice
from hack.devcluster.processes import wait_until
from tests.e2e import calls, config_cases, manifests, objects
from tests.e2e.kube import ApiRefused, Json, KubeApi
from tests.e2e.plugin import Plugin
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_POLICY = "gpu-dra-refuse-wrong-configs"
ASK_MPS = "echo MPS $(echo get_default_active_thread_percentage | nvidia-cuda-mps-control);"
"""Before a container's report: what MPS answers there."""
_WITHIN_S = 30.0


@SUITE.add("two pods share a GPU by time slicing; it ends with the second")
def run_time_slicing(stage: Stage) -> str:
    """One claim with NVIDIA's config, and two pods that name it."""
    stage.start_plugin("dgx-h100")
    _create_claim(stage, "both", config_cases.time_slicing("Long"))
    uuids = {_run(stage, name, "both").uuids for name in ("one", "two")}
    expect(len(uuids) == 1, f"the pods see {uuids}")
    ((uuid,),) = uuids
    root = stage.folders.mock_state / "root"
    expect(read_time_slice(root, uuid) == 3, f"the time slice is {read_time_slice(root, uuid)}")
    stage.delete_pods("one")
    expect(read_time_slice(root, uuid) == 3, "the first pod took the time slice along")
    stage.delete_pods("two")
    expect(wait_until(lambda: read_time_slice(root, uuid) == 0, timeout_s=_WITHIN_S), "the time slice stays")
    return f"{uuid}: long while either runs"


@SUITE.add("three pods share a GPU by MPS; the daemon outlives the plugin, and comes back when it dies")
def run_mps(stage: Stage) -> str:
    """Each container talks to the daemon; a killed plugin changes nothing; a killed daemon is there again."""
    plugin = _start(stage)
    _create_claim(stage, "all", config_cases.mps(defaultActiveThreadPercentage=30, defaultPinnedDeviceMemoryLimit="10Gi"))
    views = [_run(stage, name, "all", command=ASK_MPS) for name in ("one", "two", "three")]
    expect(len({view.uuids for view in views}) == 1, f"the pods see {[view.uuids for view in views]}")
    for name in ("one", "two", "three"):
        expect(read_said(stage, name) == "30.0", f"in pod {name} MPS said {read_said(stage, name)!r}")
    (daemon,) = list_daemons(stage)
    first = _read_pid(daemon)
    plugin.kill()
    expect(_is_running(first), "the daemon ended with the plugin")
    plugin.start()
    plugin.wait_registered()
    expect(_read_pid(daemon) == first, "another daemon after the plugin's restart")
    os.kill(first, signal.SIGKILL)
    expect(wait_until(lambda: _read_pid(daemon) not in (0, first), timeout_s=_WITHIN_S), "the daemon does not come back")
    expect(bool(_run(stage, "four", "all", command=ASK_MPS).uuids), "pod four sees nothing")
    expect(read_said(stage, "four") == "30.0", f"after its return MPS said {read_said(stage, 'four')!r}")
    last = _read_pid(daemon)
    stage.delete_pods("one", "two", "three", "four")
    expect(wait_until(lambda: not list_daemons(stage), timeout_s=_WITHIN_S), "the daemon's folder stays")
    expect(not _is_running(last), "the daemon stays")
    return "30.0 said in each of 3 containers; the same process after kill -9 of the plugin; another after its own"


@SUITE.add("four pods divide a GPU by memory, each with a claim of its own; the fifth goes to the next", needs_minor=36)
def run_shares(stage: Stage) -> str:
    """kube-scheduler adds up; each pod is told its part; with MPS the daemon holds its clients to it."""
    _start(stage, "--consumable-shares=memory")
    part: Json = {"capacity": {"requests": {"memory": "20000Mi"}}}
    seen = {}
    for name in ("one", "two", "three", "four", "five"):
        config = [for_driver(config_cases.mps())] if name == "four" else []
        view = stage.run_pod(name, objects.claim_spec([objects.exactly(**part)], config=config))
        seen[name] = view.uuids
    claims = {name: stage.read_claim_of(name)["status"]["allocation"]["devices"]["results"][0] for name in seen}
    expect(len({seen[name] for name in ("one", "two", "three", "four")}) == 1, f"the four see {seen}")
    expect(seen["five"] != seen["one"], "the fifth got a part that is not there")
    expect(len({each["shareID"] for each in claims.values()}) == 5, f"the shares are {claims}")
    expect({each["consumedCapacity"]["memory"] for each in claims.values()} == {"20000Mi"}, f"the shares are {claims}")
    log = stage.api.read_log(objects.NAMESPACE, "one", "main")
    expect(f"={20000 << 20}" in log, f"the pod is not told its part: {log[:300]!r}")
    (daemon,) = list_daemons(stage)
    limits = (daemon / "pipe" / ".limits").read_text().split()
    expect(limits == [seen["four"][0], "20000M"], f"the daemon's limits are {limits}")
    whole = stage.run_pod("whole", objects.claim_spec([objects.exactly()]))
    expect(whole.uuids[0] not in {seen["one"][0], seen["five"][0]}, "a claim that says no amount got a divided GPU")
    stage.delete_pods("two")
    again = stage.run_pod("six", objects.claim_spec([objects.exactly(**part)]))
    expect(again.uuids == seen["one"], "the part that came free is not given again")
    return f"4 x 20000Mi on {seen['one'][0]}; the fifth on another; a plain claim has a GPU alone"


@SUITE.add("a wrong config is refused at admission and at prepare in the same words")
def run_wrong_configs(stage: Stage) -> str:
    """Every case of the table, in claims; classes and templates too; what is right gets in."""
    plugin = stage.start_plugin("dgx-h100")
    at_prepare = {name: _find_faults_at_prepare(stage, plugin, each) for name, each in config_cases.WRONG.items()}
    with _policy(stage.api):
        differ = []
        for name, parameters in config_cases.WRONG.items():
            said = _find_refusal(stage.api, objects.claim("tried", _spec(parameters)))
            faults = _cut(said, "spec.devices.config[0].opaque.parameters: ")
            if faults != at_prepare[name]:
                differ.append(f"{name}: at admission {said or 'nothing'}, at prepare {sorted(at_prepare[name])}")
        expect(not differ, f"{len(differ)} of {len(config_cases.WRONG)}: {differ[:3]}")
        for name, parameters in config_cases.RIGHT.items():
            said = _find_refusal(stage.api, objects.claim("tried", _spec(parameters)))
            expect(not said, f"{name}: {said}")
        _expect_refused_everywhere(stage.api)
    return f"{len(config_cases.WRONG)} wrong ones in the same words, {len(config_cases.RIGHT)} right ones let in"


def _expect_refused_everywhere(api: KubeApi) -> None:
    """Templates and classes, with the path that is right there; other drivers' configs are nobody's business."""
    bad = config_cases.WRONG["0 percent"]
    words = "sharing.mpsConfig.defaultActiveThreadPercentage: 0 is no whole number from 1 to 100"
    said = _find_refusal(api, objects.template("tried", _spec(bad)))
    expect(f"spec.spec.devices.config[0].opaque.parameters: {words}" in said, f"of a template it says {said!r}")
    said = _find_refusal(api, _device_class(for_driver(bad)))
    expect(f"spec.config[0].opaque.parameters: {words}" in said, f"of a class it says {said!r}")
    foreign = {"opaque": {"driver": "dra.net", "parameters": {"sharing": 5}}}
    said = _find_refusal(api, objects.claim("tried", objects.claim_spec([objects.exactly()], config=[foreign])))
    expect(not said, f"of another driver's config it says {said!r}")


def _find_faults_at_prepare(stage: Stage, plugin: Plugin, parameters: Json) -> set[str]:
    device = next(iter(objects.slice_devices(stage.wait_pool(devices=8))))
    config = {"source": "FromClaim", **for_driver(parameters)}
    message = calls.claim_message(stage.create_allocated_claim("wrong", [device], config=[config]))
    error = calls.call_prepare(plugin.service_socket, [message])[message.uid].error
    stage.api.delete("ResourceClaim", objects.NAMESPACE, "wrong")
    expect(bool(error), f"{parameters} was prepared")
    return _cut(error, "status.allocation.devices.config[0].opaque.parameters (FromClaim): ")


def _cut(said: str, prefix: str) -> set[str]:
    """The faults in a message, without where they were found."""
    return {part.strip().rstrip(";") for part in said.split(prefix)[1:]}


def _start(stage: Stage, *options: str) -> Plugin:
    return stage.start_plugin("dgx-h100", options=("--mps-dir", str(mps_dir(stage)), *options))


def mps_dir(stage: Stage) -> Path:
    """Where the daemons have their folders."""
    return stage.folders.plugin_dir / "mps"


def list_daemons(stage: Stage) -> list[Path]:
    """The folder of each daemon that there is."""
    return sorted(path for path in mps_dir(stage).glob("*/*") if path.is_dir())


def _read_pid(daemon: Path) -> int:
    """The daemon's process; 0 where it does not run."""
    try:
        pid = int((daemon / "process").read_text().split(" ", 1)[0])
    except (OSError, ValueError):
        return 0
    return pid if _is_running(pid) else 0


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _create_claim(stage: Stage, name: str, parameters: Json) -> None:
    stage.api.create(objects.claim(name, _spec(parameters)))


def _spec(parameters: Json) -> Json:
    return objects.claim_spec([objects.exactly()], config=[for_driver(parameters)])


def for_driver(parameters: Json) -> Json:
    """An entry of a claim's configs."""
    return {"opaque": {"driver": objects.DRIVER, "parameters": parameters}}


def _run(stage: Stage, name: str, claim: str, *, command: str = "") -> objects.ContainerView:
    stage.api.create(objects.pod(name, named=claim, command=command + objects.REPORT))
    return stage.wait_running(name)


def read_said(stage: Stage, pod: str) -> str:
    """What MPS answered in the pod."""
    found = re.search(r"^MPS (.*)$", stage.api.read_log(objects.NAMESPACE, pod, "main"), flags=re.MULTILINE)
    return found.group(1).strip() if found else ""


@contextmanager
def _policy(api: KubeApi) -> Iterator[None]:
    documents = manifests.read_documents(manifests.ADMISSION / "refuse-wrong-configs.yaml")
    tried = objects.claim("tried", _spec(config_cases.WRONG["empty"]))
    for document in documents:
        api.apply(document)
    try:
        expect(wait_until(lambda: bool(_find_refusal(api, tried)), timeout_s=_WITHIN_S), "the policy refuses nothing")
        yield
    finally:
        for document in reversed(documents):
            api.delete(document["kind"], None, document["metadata"]["name"])
        wait_until(lambda: not _find_refusal(api, tried), timeout_s=_WITHIN_S)


def _find_refusal(api: KubeApi, body: Json) -> str:
    """What the policy says against an object; empty where it is let in."""
    where = api.path(body["kind"], body["metadata"].get("namespace"))
    try:
        api.try_creating(where, body)
    except ApiRefused as err:
        if _POLICY not in str(err):
            raise
        return _read_message(str(err))
    return ""


def _read_message(text: str) -> str:
    """The message in the server's answer, which is JSON and may be cut short behind it."""
    found = re.search(r'"message":("(?:[^"\\]|\\.)*")', text)
    return str(json.loads(found.group(1))) if found else text


def _device_class(config: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "tried"},
        "spec": {"config": [config]},
    }


@SUITE.add("MIG and MPS together: parts of a GPU that claims make, each with its daemon", needs_minor=36)
def run_mig_mps(stage: Stage) -> str:
    """No feature switches another off: dynamic MIG, shares by memory, MPS and a monitor on one node."""
    stage.start_plugin("hgx-h100-4", mig="auto", options=("--mps-dir", str(mps_dir(stage)), "--consumable-shares=memory"))
    part = {"deviceClassName": "mig.nvidia.com", "selectors": [_cel("3g.40gb")]}
    config = for_driver({**config_cases.MIG, "sharing": {"strategy": "MPS", "mpsConfig": {"multiUser": True}}})
    spec = objects.claim_spec([{"name": "gpus", "exactly": part}], config=[config])
    stage.create_pod("part", spec, command=ASK_MPS + objects.REPORT)
    view = stage.wait_running("part")
    expect(len(view.uuids) == 1 and view.uuids[0].startswith("MIG-"), f"the pod is told of {view.uuids}")
    expect(read_said(stage, "part") == "100.0", f"MPS said {read_said(stage, 'part')!r}")
    share: Json = {"capacity": {"requests": {"memory": "20000Mi"}}}
    beside = stage.run_pod("beside", objects.claim_spec([objects.exactly(**share)]))
    expect(len(beside.uuids) == 1 and beside.uuids[0].startswith("GPU-"), f"the share is {beside.uuids}")
    stage.delete_pods("part", "beside")
    expect(wait_until(lambda: not list_daemons(stage), timeout_s=_WITHIN_S), "the daemon's folder stays")
    return f"{view.uuids[0]} by MPS beside 20000Mi of {beside.uuids[0]}"


@SUITE.add("a MIG profile as an extended resource, as with the device plugin", needs_minor=36)
def run_extended_profile(stage: Stage) -> str:
    """The example of ``deploy/examples/mig``: the scheduler makes the claim, the node makes the instance."""
    stage.start_plugin("hgx-h100-4", mig="auto")
    name = ""
    documents = manifests.read_documents(manifests.EXAMPLES / "mig" / "extended-resource.yaml")
    device_class, pod = documents[0], manifests.fit_example(documents[1], objects.NAMESPACE)
    stage.api.apply(device_class)
    try:
        name = stage.api.create(pod)["metadata"]["name"]
        view = stage.wait_running(name)
        expect(len(view.uuids) == 1 and view.uuids[0].startswith("MIG-"), f"the pod is told of {view.uuids}")
        stage.delete_pods(name)
    finally:
        stage.api.delete("DeviceClass", None, device_class["metadata"]["name"])
    return f"{device_class['spec']['extendedResourceName']}: {view.uuids[0]}"


def _cel(profile: str) -> Json:
    return {"cel": {"expression": f"device.attributes['{objects.DRIVER}'].profile == '{profile}'"}}
