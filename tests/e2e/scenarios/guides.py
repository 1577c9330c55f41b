"""The guides of ``docs/``, followed to the letter; and every manifest, as the API server takes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.checks.messages import find_pattern, read_quotes
from tests.e2e import identity, manifests, objects, workloads
from tests.e2e.guide import Guide
from tests.e2e.kube import ApiRefused, Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.play import play
from tests.e2e.process import REPOSITORY
from tests.e2e.release import Release
from tests.e2e.runner import Suite
from tests.e2e.scenarios import deployed
from tests.e2e.stage import Stage, expect

SUITE = Suite()
_DOCS = Path("docs")


@SUITE.add("guide: the tour, on a node of kube-scheduler's", needs_minor=36)
def follow_the_tour(stage: Stage) -> str:
    """From a first pod to sharing and MIG."""
    stage.start_plugin("dgx-h100", mig="auto")
    return Guide(layout=stage.layout, page=_DOCS / "tour.md").follow("one-node")


@SUITE.add("guide: the tour, on a node of the controller's", needs_minor=36)
def follow_the_tour_with_the_controller(stage: Stage) -> str:
    """What needs ``gpu-dra controller``: policies, and why something waits."""
    with play(stage, {}) as on:
        stage.start_plugin("dgx-h100", options=("--allocation=controller",))
        on.start_controller()
        return Guide(layout=stage.layout, page=_DOCS / "tour.md").follow("fenced-node")


@SUITE.add("guide: the pages of the fence and of the examples", needs_minor=36)
def follow_short_pages(stage: Stage) -> str:
    """A node is labelled to and fro; the first example runs."""
    with play(stage, {}) as on:
        stage.start_plugin("dgx-h100", options=("--drain-time=1s",))
        on.start_controller()
        seen = [Guide(layout=stage.layout, page=_DOCS / "examples.md").follow("one-node")]
        stage.delete_pods("gpu-by-product")
        try:
            seen.append(Guide(layout=stage.layout, page=_DOCS / "fence.md").follow("sides"))
        finally:
            _forget_labels(stage, "gpu.nvidia.com/allocator")
    return "; ".join(seen)


@SUITE.add("guide: install, troubleshooting, upgrade, removal, with the chart", needs_minor=36, needs_image=True)
def follow_the_operator(stage: Stage) -> str:
    """The pages of whoever runs the driver, on one installation."""
    seen = []
    with _room_for_the_chart(stage):
        for page, part in (("install", "install"), ("troubleshooting", "chart"), ("upgrade", "chart"), ("install", "remove")):
            seen.append(Guide(layout=stage.layout, page=_DOCS / f"{page}.md").follow(part))
    return "; ".join(seen)


@SUITE.add("guide: migration, a node is moved; its pods say nvidia.com/gpu", needs_minor=36, needs_image=True)
def follow_the_move(stage: Stage) -> str:
    """The steps for one node, then a pod as it was written for the device plugin."""
    with _room_for_the_chart(stage):
        try:
            seen = Guide(layout=stage.layout, page=_DOCS / "migration.md").follow("move")
            (pod,) = manifests.read_documents(manifests.EXAMPLES / "extended-resource.yaml")
            stage.api.apply(manifests.fit_example(pod, NAMESPACE))
            view = stage.wait_running("extended-resource")
            expect(len(view.uuids) == 2, f"the pod sees {view.uuids}")
            stage.delete_pods("extended-resource")
        finally:
            _forget_labels(stage, "gpu-dra", "nvidia.com/gpu.deploy.device-plugin")
    return f"{seen}; 2 GPUs in a pod with nvidia.com/gpu: 2"


@contextmanager
def _room_for_the_chart(stage: Stage) -> Iterator[None]:
    """The accounts and classes that scenarios have go, and come back after the chart is removed."""
    release = Release(layout=stage.layout)
    deployed.forget_own_accounts(stage)
    try:
        release.load_image()
        yield
    finally:
        release.uninstall()
        identity.write_accounts(stage.api, release.render("kubelet-plugin-rbac", "controller-rbac"))
        identity.write_kubeconfigs(stage.api, stage.layout)  # the accounts are new, and their tokens
        _restore_class(stage)


def _forget_labels(stage: Stage, *labels: str) -> None:
    node = stage.api.path("Node", None, stage.layout.node)
    body: Json = {"metadata": {"labels": dict.fromkeys(labels)}, "spec": {"unschedulable": None}}
    stage.api.request("PATCH", node, body, kind="application/merge-patch+json")


@SUITE.add("guide: migration, with the class that serves nvidia.com/gpu", needs_minor=36)
def follow_the_migration(stage: Stage) -> str:
    """A pod of the device plugin's words, unchanged."""
    stage.start_plugin("dgx-h100")
    try:
        return Guide(layout=stage.layout, page=_DOCS / "migration.md").follow("extended")
    finally:
        _restore_class(stage)


@SUITE.add("guide: migration, another class that served nvidia.com/gpu goes", needs_minor=36)
def forget_another_class(stage: Stage) -> str:
    """kube-scheduler forgets the name with it. https://github.com/kubernetes/kubernetes/issues/141103."""
    stage.start_plugin("dgx-h100")
    selector = {"cel": {"expression": "device.driver == 'old.example.com'"}}
    spec = {"selectors": [selector], "extendedResourceName": "nvidia.com/gpu"}
    meta = {"name": "old-gpus"}
    stage.api.apply({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec})
    for body in manifests.read_device_classes(with_extended_resource=True):
        stage.api.apply(body)
    try:
        seen = Guide(layout=stage.layout, page=_DOCS / "migration.md").follow("another-class")
        pod = objects.pod("pod")
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
        stage.api.create(pod)
        view = stage.wait_running("pod")
        expect(len(view.uuids) == 1, f"the pod sees {view.uuids}")
    finally:
        stage.api.delete("DeviceClass", None, "old-gpus")
        _restore_class(stage)
    return f"{seen}; a pod gets its GPU"


@SUITE.add("guide: pods with nvidia.com/gpu on a node of each kind: device plugin, and claims", needs_minor=36)
def run_side_by_side(stage: Stage) -> str:
    """Node by node: where a device plugin counts, kube-scheduler makes no claim; elsewhere it does."""
    stage.start_plugin("dgx-h100")
    for body in manifests.read_device_classes(with_extended_resource=True):
        stage.api.apply(body)
    try:
        _add_node_of_device_plugin(stage, "node-old", gpus=2)
        nodes = {}
        for name, node in (("old", "node-old"), ("new", stage.layout.node)):
            pod = objects.pod(name)
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
            pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}
            stage.api.create(pod)
            bound = stage.wait_pod(name, lambda body: bool(body["spec"].get("nodeName")), what="bound")
            nodes[name] = bound["spec"]["nodeName"]
        claims = [each["metadata"]["name"] for each in stage.api.find("ResourceClaim", NAMESPACE)]
        expect(len(claims) == 1 and claims[0].startswith("new-"), f"claims: {claims}")
        view = stage.wait_running("new")
        expect(len(view.uuids) == 2, f"the new node's pod sees {view.uuids}")
    finally:
        _restore_class(stage)
    return f"{nodes}; the one claim is {claims[0]}"


def _add_node_of_device_plugin(stage: Stage, name: str, *, gpus: int) -> None:
    """A node that counts GPUs, as the kubelet does for a device plugin, and publishes no slices."""
    stage.fleet.add({name: "t4"}, is_fenced=False)
    for each in stage.api.find("ResourceSlice"):
        if each["spec"].get("nodeName") == name:
            stage.api.delete("ResourceSlice", None, each["metadata"]["name"])
    counted = {"nvidia.com/gpu": str(gpus)}
    where = stage.api.path("Node", None, name, "status")
    body = {"status": {"capacity": counted, "allocatable": counted}}
    stage.api.request("PATCH", where, body, kind="application/merge-patch+json")


def _restore_class(stage: Stage) -> None:
    for body in manifests.read_device_classes(with_extended_resource=False):
        stage.api.apply(body)


@SUITE.add("guide: what troubleshooting quotes of Kubernetes is what its binaries say")
def compare_quotes(stage: Stage) -> str:
    """The texts are those of the version that runs."""
    quotes = [each for each in read_quotes((REPOSITORY / _DOCS / "troubleshooting.md").read_text()) if each[1]]
    for text, binary in quotes:
        content = (stage.layout.kube_bin / binary).read_bytes()
        expect(find_pattern(text).search(content) is not None, f"{binary} does not say {text!r}")
    return f"{len(quotes)} texts"


@SUITE.add("guide: every manifest of deploy/examples passes the API server", needs_minor=36)
def dry_run_all(stage: Stage) -> str:
    """A dry run with all of the server's checks; of kinds that are not served here, the pods."""
    count = 0
    for path in sorted(manifests.EXAMPLES.rglob("*.yaml")):
        for document in manifests.read_documents(path):
            for body in _list_servable(document):
                _dry_run(stage, body, path)
                count += 1
    return f"{count} objects"


def _list_servable(document: Json) -> list[Json]:
    group = document["apiVersion"].rpartition("/")[0]
    is_served = group in {"", "batch", "apps"} or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))
    return [document] if is_served else workloads.make_pods(document)


def _dry_run(stage: Stage, body: Json, path: Path) -> None:
    api = stage.api
    fitted = {**body, "metadata": {**body["metadata"]}}
    if body["kind"] == "Namespace":
        api.apply(manifests.fit_example(body, NAMESPACE))  # what stands in it needs its label
    elif body["kind"] != "DeviceClass":
        fitted["metadata"]["namespace"] = NAMESPACE
    where = api.path(fitted["kind"], fitted["metadata"].get("namespace"))
    try:
        api.request("POST", f"{where}?dryRun=All&fieldValidation=Strict", fitted)
    except ApiRefused as err:
        expect("already exists" in str(err), f"{path.name}, {body['kind']}: {err}")


@SUITE.add("guide: pods of KServe, Ray, NIM and a Job get the GPUs that their claims ask for")
def run_workloads(stage: Stage) -> str:
    """Without their controllers: the pods that those would make."""
    stage.start_plugin("dgx-h100")
    seen: dict[str, int] = {}
    for stem in ("job", "kserve", "nim", "ray"):
        seen |= _run_workload(stage, stem)
    expected = {"train": 2, "llama-predictor": 1, "llama": 2, "ray-head": 0, "ray-gpu": 2}
    expect(seen == expected, f"the pods see {seen}, not {expected}")
    return ", ".join(f"{name}: {count}" for name, count in seen.items())


@SUITE.add("guide: the pod of a Kueue job gets an island by the policy of its class", needs_minor=36)
def run_queued_workload(stage: Stage) -> str:
    """Without Kueue: the pod of the job that it would let go. The claim says class and count alone."""
    with play(stage, {}) as on:
        stage.start_plugin("dgx-h100", options=("--allocation=controller",))
        on.start_controller()
        seen = _run_workload(stage, "kueue")
    expect(seen == {"queued-training": 4}, f"the pods see {seen}")
    return "4 GPUs"


def _run_workload(stage: Stage, stem: str) -> dict[str, int]:
    documents = manifests.read_documents(manifests.EXAMPLES / "workloads" / f"{stem}.yaml")
    seen = {}
    for document in documents:
        if document["apiVersion"] == "resource.k8s.io/v1":
            stage.api.apply(manifests.fit_example(document, NAMESPACE) if document["kind"] != "DeviceClass" else document)
    pods = [manifests.fit_example(pod, NAMESPACE) for document in documents for pod in workloads.make_pods(document)]
    for pod in pods:
        for container in pod["spec"]["containers"]:
            container.pop("args", None)
            container["resources"].pop("requests", None)  # of nodes that are larger than this one
        stage.api.apply(pod)
        stage.wait_pod(_name(pod), objects.is_running, what="running")
        seen[_name(pod)] = len(stage.read_view(_name(pod), _first(pod)).uuids)
    stage.delete_pods(*(_name(pod) for pod in pods))
    for document in documents:
        if document["kind"] == "DeviceClass":
            stage.api.delete("DeviceClass", None, document["metadata"]["name"])
    return seen


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _first(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["name"])


@SUITE.add("guide: a quota by DeviceClass turns the fifth GPU down", needs_minor=36)
def run_quota(stage: Stage) -> str:
    """The example as it is; a claim beyond it is refused in words that name the class."""
    stage.start_plugin("dgx-h100")
    (quota,) = manifests.read_documents(manifests.EXAMPLES / "quota" / "gpus-per-namespace.yaml")
    quota["metadata"]["namespace"] = NAMESPACE
    stage.api.apply(quota)
    try:
        stage.api.wait(
            "ResourceQuota", NAMESPACE, lambda found: bool(found) and bool(found[0].get("status", {}).get("used")), what="used"
        )
        stage.run_pod("four", objects.claim_spec([objects.exactly(count=4)]))
        refusal = _refuse(stage, objects.claim_spec([objects.exactly()]))
        name = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
        for words in ("exceeded quota: gpus", f"requested: {name}=1", f"used: {name}=4", f"limited: {name}=4"):
            expect(words in refusal, f"the refusal lacks {words!r}: {refusal}")
        _refuse(
            stage,
            objects.claim_spec([{"name": "all", "exactly": {"deviceClassName": "mig.nvidia.com", "allocationMode": "All"}}]),
        )
    finally:
        stage.api.delete("ResourceQuota", NAMESPACE, quota["metadata"]["name"])
    return refusal[:160]


@SUITE.add("guide: a quota counts a pod with nvidia.com/gpu once, and claims that pretend to be its", needs_minor=36)
def run_extended_quota(stage: Stage) -> str:
    """Claims marked as a pod's extended resources are let off its count; that of the class has them all.

    https://github.com/kubernetes/kubernetes/issues/135404
    """
    stage.start_plugin("dgx-h100")
    for body in manifests.read_device_classes(with_extended_resource=True):
        stage.api.apply(body)
    (quota,) = manifests.read_documents(manifests.EXAMPLES / "quota" / "gpus-per-namespace.yaml")
    quota["metadata"]["namespace"] = NAMESPACE
    stage.api.apply(quota)
    try:
        pod = objects.pod("pod")
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 3}}
        made = stage.api.create(pod)
        stage.wait_running("pod")
        names = ("requests.nvidia.com/gpu", "gpu.nvidia.com.deviceclass.resource.k8s.io/devices")
        counted = {"requests.nvidia.com/gpu": "3", "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "3"}

        def is_counted(found: list[Json]) -> bool:
            used = found[0].get("status", {}).get("used", {}) if found else {}
            return {name: used.get(name) for name in names} == counted

        stage.api.wait("ResourceQuota", NAMESPACE, is_counted, what=f"used {counted}")
        pretender = objects.claim("pretender", objects.claim_spec([objects.exactly(count=2)]))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": made["metadata"]["uid"], "controller": True}
        pretender["metadata"] |= {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
        }
        try:
            stage.api.create(pretender)
        except ApiRefused as err:
            expect("exceeded quota: gpus" in str(err), str(err))
        else:
            expect(is_true=False, what="a claim that pretends to be the pod's is not refused")
    finally:
        stage.api.delete("ResourceQuota", NAMESPACE, quota["metadata"]["name"])
        _restore_class(stage)
    return f"{counted}; two more are refused"


def _refuse(stage: Stage, spec: Json) -> str:
    try:
        stage.api.create(objects.claim("beyond", spec))
    except ApiRefused as err:
        return str(err)
    expect(is_true=False, what="a claim beyond the quota is not refused")
    return ""
