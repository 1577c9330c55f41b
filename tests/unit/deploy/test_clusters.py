"""The chart on clusters of all kinds: what users reported of other charts, with the right answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.unit.deploy.helm import CHART, needs_helm, of_kind, pod_of, render

pytestmark = needs_helm

LONGEST = "team-of-the-northern-cluster-and-its-many-gpu-nodes-1"
"""As long as helm takes: 53 characters."""
OPENSHIFT = "--api-versions=security.openshift.io/v1"
CLUSTER_KINDS = {
    "ClusterRole",
    "ClusterRoleBinding",
    "DeviceClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def _names(objects: list[dict[str, Any]], kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in objects if each["kind"] == kind]


@pytest.mark.parametrize("release", [LONGEST, "1gpu", "gpu.dra", f"9.{LONGEST}"[:53]])
def test_names_are_legal_whatever_the_release_is_called(release: str) -> None:
    """A Service's name is a DNS label that begins with a letter; an account's name goes into labels of 63 characters on some.

    https://github.com/modelplaneai/modelplane/pull/314, https://github.com/kubermatic/kubermatic/pull/13766
    """
    objects = render(release=release)
    for name in [*_names(objects, "Service"), *_names(objects, "ServiceAccount"), *_names(objects, "DaemonSet")]:
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) <= 63
    accounts = {pod_of(objects, kind)["serviceAccountName"] for kind in ("DaemonSet", "Deployment")}
    assert accounts == set(_names(objects, "ServiceAccount"))


def test_names_that_are_cut_stay_apart() -> None:
    """https://github.com/helm/charts/issues/8750: two names that were cut became one."""
    one, other = render(release=LONGEST), render(release=f"{LONGEST[:-1]}2")
    assert not set(_names(one, "ClusterRole")) & set(_names(other, "ClusterRole"))
    assert len(set(_names(one, "ServiceAccount"))) == 2


def test_everything_is_in_the_releases_namespace() -> None:
    """``helm template | kubectl apply`` has no other place to take it from.

    https://github.com/NVIDIA/gpu-operator/issues/754
    """
    for each in render("--namespace=elsewhere", OPENSHIFT, "--set=metrics.dashboards=true,metrics.prometheusRule=true"):
        assert each["metadata"].get("namespace") == (None if each["kind"] in CLUSTER_KINDS else "elsewhere")


def test_policies_are_for_the_accounts_that_write() -> None:
    """A policy for an account that nobody has keeps nobody from anything.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1318
    """
    objects = render("--namespace=elsewhere", release=LONGEST)
    users = {
        f"system:serviceaccount:elsewhere:{pod_of(objects, kind)['serviceAccountName']}" for kind in ("DaemonSet", "Deployment")
    }
    named = {
        user
        for each in objects
        if each["kind"] == "ValidatingAdmissionPolicy"
        for condition in each["spec"].get("matchConditions", [])
        for user in re.findall(r"system:serviceaccount:[^']+", condition["expression"])
    }
    assert named == users


def test_the_policy_of_slices_judges_every_version_of_the_api() -> None:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/476: a version that is left out is a way around."""
    (policy,) = [each for each in render() if each["metadata"]["name"] == "gpu-dra-kubelet-plugin-own-slices"][:1]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["apiVersions"] == ["v1", "v1beta1", "v1beta2"]


def test_pods_of_kubernetes_priorities_have_their_quota() -> None:
    """GKE lets none in otherwise, and the DaemonSet stays without pods.

    https://github.com/modelplaneai/modelplane/issues/202
    """
    objects = render()
    (scope,) = of_kind(objects, "ResourceQuota")["spec"]["scopeSelector"]["matchExpressions"]
    priorities = {pod_of(objects, kind)["priorityClassName"] for kind in ("DaemonSet", "Deployment")}
    assert (scope["scopeName"], scope["operator"], set(scope["values"])) == ("PriorityClass", "In", priorities)


def test_no_quota_where_it_would_be_for_nobody() -> None:
    none = "--set=kubeletPlugin.priorityClassName=,controller.priorityClassName="
    for arguments in (["--set=criticalPodsQuota=false"], [none]):
        assert "ResourceQuota" not in {each["kind"] for each in render(*arguments)}
    for kind in ("DaemonSet", "Deployment"):  # and an empty field would be a difference to tools that compare, as Argo CD does
        assert "priorityClassName" not in pod_of(render(none), kind)
    left = of_kind(render("--set=controller.enabled=false"), "ResourceQuota")
    assert left["spec"]["scopeSelector"]["matchExpressions"][0]["values"] == ["system-node-critical"]


def test_openshift_lets_both_accounts_run_their_pods() -> None:
    """Bound are accounts that there are, and the controller gets no more than any user id but 0.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/753
    """
    objects = render(OPENSHIFT, "--namespace=elsewhere")
    bound = {
        each["subjects"][0]["name"]: each["roleRef"]["name"]
        for each in objects
        if each["kind"] == "RoleBinding" and each["roleRef"]["kind"] == "ClusterRole"
    }
    assert bound == {
        pod_of(objects, "DaemonSet")["serviceAccountName"]: "system:openshift:scc:privileged",
        pod_of(objects, "Deployment")["serviceAccountName"]: "system:openshift:scc:nonroot-v2",
    }
    assert render() == render(OPENSHIFT, "--set=openshift=false")
    assert len(render("--set=openshift=true")) == len(render()) + 2


@pytest.mark.parametrize(
    "label",
    [
        {"nvidia.com/gpu.present": "true"},
        {"feature.node.kubernetes.io/pci-10de.present": "true"},
        {"feature.node.kubernetes.io/pci-0300_10de.present": "true"},
        {"feature.node.kubernetes.io/pci-0302_10de.present": "true"},
        {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
        {"kubernetes.azure.com/accelerator": "nvidia"},
    ],
    ids=lambda label: next(iter(label)),
)
def test_nodes_with_gpus_are_known_by_each_of_their_usual_labels(label: dict[str, str]) -> None:
    """One of them is enough.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1084, https://github.com/NVIDIA/k8s-device-plugin/issues/1213
    """
    affinity = pod_of(render(), "DaemonSet")["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((key, value),) = label.items()
    terms = [expression for term in affinity["nodeSelectorTerms"] for expression in term["matchExpressions"]]
    assert [each for each in terms if each["key"] == key and (each["operator"] == "Exists" or value in each["values"])]


def test_no_pod_lands_on_a_node_of_another_system() -> None:
    """Nothing taints Windows nodes of AKS.

    https://github.com/OneUptime/oneuptime/pull/3041
    """
    objects = render("--set=controller.nodeSelector.pool=system", "--set-json=kubeletPlugin.affinity=null")
    assert pod_of(objects, "DaemonSet")["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod_of(objects, "Deployment")["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}


def test_the_controller_runs_where_only_tainted_nodes_are_left_for_it() -> None:
    """And asks for no control plane, which managed clusters do not show.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1047, https://github.com/Azure/AKS/issues/1963
    """
    pod = pod_of(render(), "Deployment")
    assert {each["key"] for each in pod["tolerations"]} == {"CriticalAddonsOnly", "node-role.kubernetes.io/control-plane"}
    assert "affinity" not in pod
    affinity: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert pod_of(render(f"--set-json=controller.affinity={json.dumps(affinity)}"), "Deployment")["affinity"] == affinity


def test_the_plugin_tolerates_the_taint_of_gpu_nodes_whatever_its_effect() -> None:
    """https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1047: with NoExecute it would be thrown out."""
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in pod_of(render(), "DaemonSet")["tolerations"]


def test_a_node_that_is_down_does_not_hold_up_an_update_of_all() -> None:
    """Its new pod never gets ready and takes a place; with a single one that is the end.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/591, https://github.com/NVIDIA/NVSentinel/issues/1764
    """
    assert of_kind(render(), "DaemonSet")["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}
    other = of_kind(render("--set=kubeletPlugin.maxSurge=50%"), "DaemonSet")
    assert other["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == "50%"


def test_the_api_server_is_reached_at_whatever_port() -> None:
    """8443 on minikube, 16443 on microk8s, 6444 on some k3s; and a default deny of the namespace must not cut it off either.

    https://github.com/arkmq-org/arkmq-org-broker-operator/pull/1382, https://github.com/sympozium-ai/sympozium/pull/28
    """
    spec = of_kind(render(), "NetworkPolicy")["spec"]
    assert (spec["policyTypes"], spec["egress"]) == (["Ingress", "Egress"], [{}])


def test_egress_can_be_kept_to_ports() -> None:
    """Names are served at 53, on OpenShift at 5353 behind it."""
    (rule,) = of_kind(render("--set-json=networkPolicy.apiServerPorts=[443,6443]"), "NetworkPolicy")["spec"]["egress"]
    assert [(each["port"], each["protocol"]) for each in rule["ports"]] == [
        (443, "TCP"),
        (6443, "TCP"),
        (53, "UDP"),
        (53, "TCP"),
        (5353, "UDP"),
        (5353, "TCP"),
    ]


VARIATIONS = ("logLevel=debug", "kubeletPlugin.healthPort=8090", "controller.httpPort=9090", "image.tag=2", "openshift=true")


def test_selectors_are_those_of_the_first_release_whatever_the_values() -> None:
    """They cannot be changed once made; a version or a port in them ends every upgrade.

    https://github.com/NVIDIA/k8s-device-plugin/issues/701, https://github.com/deliveryhero/helm-charts/issues/743
    """
    names = {"app.kubernetes.io/name": "gpu-dra", "app.kubernetes.io/instance": "gpu-dra"}
    for values in ("", *VARIATIONS):
        objects = render(f"--set-string={values}" if "image" in values else f"--set={values}")
        for kind, component in (("DaemonSet", "kubelet-plugin"), ("Deployment", "controller")):
            expected = {"matchLabels": names | {"app.kubernetes.io/component": component}}
            assert of_kind(objects, kind)["spec"]["selector"] == expected


@pytest.mark.parametrize(
    ("tag", "expected"), [("v2", "gpu-dra:v2"), ("sha256:" + "a" * 64, "gpu-dra@sha256:" + "a" * 64), ("", "gpu-dra:0.1.0")]
)
def test_an_image_is_named_by_tag_or_by_digest(tag: str, expected: str) -> None:
    """Registries of closed networks are often pinned.

    https://github.com/fluent/helm-charts/issues/356
    """
    objects = render(f"--set-string=image.tag={tag}")
    for kind in ("DaemonSet", "Deployment"):
        assert pod_of(objects, kind)["containers"][0]["image"] == expected


def test_both_halves_have_the_secrets_of_the_registry() -> None:
    objects = render('--set-json=imagePullSecrets=[{"name":"registry"}]')
    for kind in ("DaemonSet", "Deployment"):
        assert pod_of(objects, kind)["imagePullSecrets"] == [{"name": "registry"}]


def test_amounts_may_be_numbers(tmp_path: Path) -> None:
    """Helm makes floats of what stands in a file.

    https://github.com/helm/helm/issues/6431, https://github.com/helm/helm/issues/13254
    """
    limits = {"memory": 1073741824, "cpu": 0.5}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"controller": {"resources": {"limits": limits}, "httpPort": 65000}}))
    objects = render(f"--values={file}")
    (container,) = pod_of(objects, "Deployment")["containers"]
    assert {name: float(amount) for name, amount in container["resources"]["limits"].items()} == limits
    assert "--health-address=:65000" in container["args"]
    for each in objects:
        kubernetes_validate.validate(each, "1.37", strict=True)


def test_the_end_of_an_installation_says_what_to_do_where_no_node_is_taken() -> None:
    """A DaemonSet without a node is no failure to helm, and nobody sees why there is no GPU.

    https://github.com/NVIDIA/k8s-device-plugin/issues/708, https://github.com/NVIDIA/k8s-device-plugin/issues/315
    """
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    assert 'get daemonset {{ include "gpu-dra.plugin" . }}' in notes
    assert "kubectl label node NODE nvidia.com/gpu.present=true" in notes
    assert "kubeletPlugin.affinity" in notes


@pytest.mark.parametrize(
    "repository",
    ["gpu-dra", "localhost:5000/gpu-dra", "[2001:db8::1]:5000/a/gpu-dra", "europe-docker.pkg.dev/project/repo/gpu-dra"],
)
def test_an_image_may_lie_in_any_registry(repository: str) -> None:
    image = pod_of(render(f"--set-json=image.repository={json.dumps(repository)}"), "DaemonSet")["containers"][0]["image"]
    assert image == f"{repository}:0.1.0"


@pytest.mark.parametrize("version", ["1.34.1-gke.1234", "v1.36.2+k3s1", "1.35.0-eks-abc1234", "1.37.0-rc.1"])
def test_versions_of_vendors_are_versions(version: str) -> None:
    """A suffix makes a pre-release, which plain ranges leave out.

    https://github.com/kubernetes-sigs/dra-driver-cpu/pull/83
    """
    assert render(f"--kube-version={version}")


@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_every_object_of_every_variation_is_legal(version: str) -> None:
    everything = "--set=metrics.dashboards=true,deviceClasses.extendedResource=true,kubeletPlugin.nvml=mock:dgx-h100"
    for each in render(everything, OPENSHIFT, release=LONGEST):
        kubernetes_validate.validate(each, version, strict=True)
