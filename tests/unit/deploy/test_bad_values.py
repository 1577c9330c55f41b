"""Wrong values as helm refuses them: where, what, and what would be right. Needs helm: of the PATH, or of the dev cluster."""

from __future__ import annotations

import json

import pytest

from tests.unit.deploy.helm import needs_helm, template

pytestmark = needs_helm

WRONG: dict[str, tuple[str, object, str]] = {
    "a value that there is not": ("kubeletPlugins", {}, "at '': additional properties 'kubeletPlugins' not allowed"),
    "a setting that there is not": (
        "kubeletPlugin.nvmll",
        "real",
        "at '/kubeletPlugin': additional properties 'nvmll' not allowed",
    ),
    "no backend": ("kubeletPlugin.nvml", "fake", "at '/kubeletPlugin/nvml': 'fake' does not match pattern '^(real|mock:.+)$'"),
    "an unknown allocator": (
        "kubeletPlugin.allocation",
        "both",
        "at '/kubeletPlugin/allocation': value must be one of 'scheduler', 'controller'",
    ),
    "an unknown way with MIG": (
        "kubeletPlugin.mig",
        "on",
        "at '/kubeletPlugin/mig': value must be one of 'auto', 'static', 'dynamic', 'off'",
    ),
    "a relative folder": (
        "kubeletPlugin.kubeletRoot",
        "var/lib/kubelet",
        "at '/kubeletPlugin/kubeletRoot': 'var/lib/kubelet' does not match pattern '^/+[^/]'",
    ),
    "a port that there is not": ("controller.httpPort", 70000, "at '/controller/httpPort': maximum: got 70,000, want 65,535"),
    "no replica": ("controller.replicas", 0, "at '/controller/replicas': minimum: got 0, want 1"),
    "a flag that is none": (
        "kubeletPlugin.extraArgs",
        ["log-level=debug"],
        "at '/kubeletPlugin/extraArgs/0': 'log-level=debug' does not match pattern '^--[a-z][a-z-]*(=.*)?$'",
    ),
    "text for a switch": ("networkPolicy.create", "no", "at '/networkPolicy/create': got string, want boolean"),
    "a share of nodes that is none": (
        "kubeletPlugin.maxSurge",
        "0%",
        "at '/kubeletPlugin/maxSurge': '0%' does not match pattern '^([1-9][0-9]?|100)%$'",
    ),
    "a number for an image's tag": ("image.tag", 1.10, "at '/image/tag': got number, want string"),
    "an image with its tag": (
        "image.repository",
        "registry:5000/gpu-dra:0.1.0",
        "at '/image/repository': 'registry:5000/gpu-dra:0.1.0' does not match pattern '^[^@]*(^|/)[^/:@ ]+$'",
    ),
    "a section without a line": ("kubeletPlugin", None, "at '': missing property 'kubeletPlugin'"),
    "a value that is taken away": ("controller.httpPort", None, "at '/controller': missing property 'httpPort'"),
    "an image's name that is taken away": ("image.repository", None, "at '/image': missing property 'repository'"),
    "an image as one text": ("image", "gpu-dra:0.1.0", "at '/image': got string, want object"),
    "a digest in a value of its own": ("image.digest", "sha256:aa", "at '/image': additional properties 'digest' not allowed"),
    "a tag that is none": (
        "image.tag",
        "v1 2",
        "at '/image/tag': 'v1 2' does not match pattern '^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9._-]*|)$'",
    ),
    "half a digest": (
        "image.tag",
        "sha256:aa",
        "at '/image/tag': 'sha256:aa' does not match pattern '^(sha256:[0-9a-f]{64}|[A-Za-z0-9_][A-Za-z0-9._-]*|)$'",
    ),
    "a flag and its value in one": (
        "controller.extraArgs",
        ["--lease-s 30"],
        "at '/controller/extraArgs/0': '--lease-s 30' does not match pattern '^--[a-z][a-z-]*(=.*)?$'",
    ),
    "the machine's root for the kubelet": (
        "kubeletPlugin.kubeletRoot",
        "/",
        "at '/kubeletPlugin/kubeletRoot': '/' does not match pattern '^/+[^/]'",
    ),
    "an XID as text": (
        "kubeletPlugin.health.ignoredXids",
        "48",
        "at '/kubeletPlugin/health/ignoredXids': got string, want array",
    ),
    "ports as text": (
        "networkPolicy.apiServerPorts",
        ["443"],
        "at '/networkPolicy/apiServerPorts/0': got string, want integer",
    ),
    "a pull policy in lower case": (
        "image.pullPolicy",
        "always",
        "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
    ),
    "yes for openshift": ("openshift", "yes", "at '/openshift': value must be one of 'auto', true, false"),
    "a secret without its key": ("imagePullSecrets", ["registry"], "at '/imagePullSecrets/0': got string, want object"),
    "a label that is no text": (
        "controller.nodeSelector",
        {"gpu": True},
        "at '/controller/nodeSelector/gpu': got boolean, want string",
    ),
    "tolerations as a map": ("controller.tolerations", {"key": "a"}, "at '/controller/tolerations': got object, want array"),
    "a level that there is not": (
        "logLevel",
        "loud",
        "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'",
    ),
}


@pytest.mark.parametrize(("path", "value", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value(path: str, value: object, says: str) -> None:
    done = template(f"--set-json={path}={json.dumps(value)}")
    said = [line for line in done.stderr.splitlines() if not line.startswith("walk.go")]
    assert (done.returncode, done.stdout) == (1, "")
    assert said[-1 if said[-1] else -2] == f"- {says}"


def test_one_port_for_two_servers_is_refused() -> None:
    done = template("--set=kubeletPlugin.metricsPort=51515")
    assert done.returncode == 1
    assert "kubeletPlugin.healthPort and kubeletPlugin.metricsPort are both 51515: two servers need two ports" in done.stderr


def test_a_kubernetes_that_is_too_old_is_refused() -> None:
    done = template("--kube-version=1.33.4")
    assert done.returncode == 1
    assert "chart requires kubeVersion: >=1.34.0-0 which is incompatible with Kubernetes v1.33.4" in done.stderr
