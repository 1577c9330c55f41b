"""The image and the chart: both halves as pods with the rights the chart gives them, upgraded under load, removed whole."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

from tests.e2e import identity, manifests, objects
from tests.e2e.churn import Churn
from tests.e2e.identity import ACCOUNTS, CONTROLLER, PLUGIN, SYSTEM_NAMESPACE
from tests.e2e.kube import Json
from tests.e2e.play import UNFENCED, play
from tests.e2e.refusals import find_refusal, forget_tries, node_tries, slice_tries, user_tries, wait_policies
from tests.e2e.release import RELEASE, Release
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect
from tests.e2e.traffic import Traffic

SUITE = Suite()
_ONE = objects.claim_spec([objects.exactly(selector=UNFENCED)])
_FENCED_NODES = {"fenced-1": "dgx-a100", "fenced-2": "hgx-a100-4x2"}
_CAPACITY = 12
"""GPUs of the fenced nodes that pods want at a time: there is always something to decide."""


@SUITE.add(
    "the chart: both halves as pods, upgraded and rolled back under load, removed whole", needs_minor=36, needs_image=True
)
def run_the_chart(stage: Stage) -> str:
    """Install, run a pod, refuse what the policies refuse; all pods of both halves are replaced, twice; uninstall."""
    with _installable(stage) as release, play(stage, _FENCED_NODES) as on:
        values = _build_values(stage)
        release.install(values)
        stage.wait_pool()
        first = stage.expect_own_devices("first", stage.run_pod("first", _ONE))
        refused = _expect_refused(stage)
        churn = Churn(play=on, wanted=0, capacity=_CAPACITY, dice=random.Random(3))
        traffic = Traffic(stage=stage, spec=_ONE, churn=churn)
        with traffic.flowing():
            changes: tuple[Callable[[], None], ...] = (
                lambda: release.install(values | {"logLevel": "debug"}),
                release.rollback,
            )
            for change in changes:
                before = _read_driver_pods(stage)
                change()
                _expect_all_replaced(before, _read_driver_pods(stage))
        on.check_doubles()
        expect(stage.expect_own_devices("first", stage.read_view("first")) == first, "the first pod has other devices")
        ran = (
            f"{traffic.pods} pods ran on the node (slowest after {traffic.slowest_s:.1f} s) and {churn.ended} by the controller"
        )
        on.finish()
        release.uninstall()
        _expect_nothing_left(stage)
    return f"{refused}; {ran} during an upgrade and a rollback of both halves; nothing is left"


def _build_values(stage: Stage) -> dict[str, object]:
    """Mock GPUs, and both halves on the one node that has a kubelet."""
    here = {"kubernetes.io/hostname": stage.layout.node}
    return {"kubeletPlugin.nvml": "mock:dgx-h100", "kubeletPlugin.nodeSelector": here, "controller.nodeSelector": here}


@contextlib.contextmanager
def _installable(stage: Stage) -> Iterator[Release]:
    """The image in the node, and nothing of the stage's own that the chart would make; afterwards it is as it was."""
    release = Release(layout=stage.layout)
    forget_own_accounts(stage)
    try:
        release.load_image()
        yield release
    finally:
        release.uninstall()
        identity.write_accounts(stage.api, release.render("kubelet-plugin-rbac", "controller-rbac"))
        identity.write_kubeconfigs(stage.api, stage.layout)
        for body in manifests.read_device_classes(with_extended_resource=False):
            stage.api.apply(body)


def _read_driver_pods(stage: Stage) -> dict[str, set[str]]:
    """The uids of the pods of each half that are not ending."""
    uids: dict[str, set[str]] = {"kubelet-plugin": set(), "controller": set()}
    for each in stage.api.find("Pod", SYSTEM_NAMESPACE, query=f"labelSelector=app.kubernetes.io/instance%3D{RELEASE}"):
        if "deletionTimestamp" not in each["metadata"]:
            uids[each["metadata"]["labels"]["app.kubernetes.io/component"]].add(each["metadata"]["uid"])
    return uids


def _expect_all_replaced(before: dict[str, set[str]], after: dict[str, set[str]]) -> None:
    for half, count in (("kubelet-plugin", 1), ("controller", 2)):
        expect(len(after[half]) == count, f"there are {len(after[half])} pods of the {half}, not {count}")
        expect(not before[half] & after[half], f"a pod of the {half} was not replaced")


def _expect_refused(stage: Stage) -> str:
    """With the tokens of the chart's own pods, and for users: all that its policies and rights are there for."""
    plugin, controller = (stage.api.as_bearer(_token_of_pod(stage, half)) for half in (PLUGIN, CONTROLLER))
    wait_policies(stage.api, plugin, controller, stage.layout.node)
    own = stage.wait_pool()[0]
    tries = [*slice_tries(stage, plugin, own), *node_tries(stage, controller), *user_tries(stage)]
    wrong = [f"{what}: {said}" for what, attempt, words in tries if words not in (said := find_refusal(attempt))]
    expect(not wrong, "; ".join(wrong))
    forget_tries(stage)
    return f"{len(tries)} refusals"


def _token_of_pod(stage: Stage, account: str) -> str:
    """A token as the kubelet gives it to a pod: bound to the pod, and naming its node."""
    api = stage.api
    half = account.removeprefix(f"{RELEASE}-")
    pod = api.find("Pod", SYSTEM_NAMESPACE, query=f"labelSelector=app.kubernetes.io/component%3D{half}")[0]["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    body: Json = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound, "expirationSeconds": 3600},
    }
    answer = api.request("POST", api.path("ServiceAccount", SYSTEM_NAMESPACE, account, "token"), body)
    return str(answer["status"]["token"])


def forget_own_accounts(stage: Stage) -> None:
    """The stage's own accounts have the chart's names; helm takes over nothing that it did not make."""
    for account in ACCOUNTS:
        stage.api.delete("ServiceAccount", SYSTEM_NAMESPACE, account)
        for kind in ("RoleBinding", "Role"):
            stage.api.delete(kind, SYSTEM_NAMESPACE, account)
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            stage.api.delete(kind, None, account)
    for found in stage.api.find("DeviceClass"):
        stage.api.delete("DeviceClass", None, found["metadata"]["name"])


def _expect_nothing_left(stage: Stage) -> None:
    """No pod, no role, no class, no slice (the kubelet removes those of a plugin that is gone, after 30 s)."""
    gone: Callable[[list[Json]], bool] = lambda found: not found  # noqa: E731
    stage.api.wait("ResourceSlice", None, gone, what="no slice left", query=stage.pool_query, timeout_s=120.0)
    mark = f"labelSelector=app.kubernetes.io/instance%3D{RELEASE}"
    for kind, namespace in (
        ("Pod", SYSTEM_NAMESPACE),
        ("ServiceAccount", SYSTEM_NAMESPACE),
        ("Role", SYSTEM_NAMESPACE),
        ("RoleBinding", SYSTEM_NAMESPACE),
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("ValidatingAdmissionPolicy", None),
        ("ValidatingAdmissionPolicyBinding", None),
    ):
        stage.api.wait(kind, namespace, gone, what=f"no {kind} left", query=mark, timeout_s=60.0)
    for kind in ("DeviceClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):  # not all have the mark
        left = [each["metadata"]["name"] for each in stage.api.find(kind)]
        expect(not left, f"{kind}s are left: {left}")
    annotations = (stage.api.get("Node", None, stage.layout.node) or {})["metadata"].get("annotations", {})
    ours = [each for each in annotations if "gpu.nvidia.com" in each]
    expect(not ours, f"annotations of the Node are left: {ours}")
