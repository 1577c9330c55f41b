"""What the plugin's pod mounts of the host: what users reported of other charts, with the right answer."""

from __future__ import annotations

import pytest

from tests.unit.deploy.helm import needs_helm, pod_of, render

pytestmark = needs_helm

KUBELET_ROOTS = ("/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet", "/data01/kubelet/", "/var/lib//kubelet")


@pytest.mark.parametrize("root", KUBELET_ROOTS)
def test_every_path_follows_the_kubelets_root(root: str) -> None:
    """Also with a slash too many, by which paths of the kubelet and ours would differ.

    https://github.com/kubernetes-sigs/dra-driver-cpu/issues/231, https://github.com/NVIDIA/k8s-device-plugin/pull/1252
    """
    pod = pod_of(render(f"--set=kubeletPlugin.kubeletRoot={root}"), "DaemonSet")
    clean = root.rstrip("/").replace("//", "/")
    (container,) = pod["containers"]
    paths = [each["mountPath"] for each in container["volumeMounts"]]
    paths += [each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each]
    for path in paths:
        assert "//" not in path
        assert "kubelet" not in path or path == clean or path.startswith(f"{clean}/plugins")
    assert f"--kubelet-root={clean}" in container["args"]


@pytest.mark.parametrize("nvml", ["real", "mock:dgx-h100"])
def test_volumes_of_other_pods_are_let_go(nvml: str) -> None:
    """A copy of the kubelet's mounts keeps their devices busy: what the host unmounts has to go here, too.

    https://github.com/koordinator-sh/koordinator/pull/2641, https://github.com/k8snetworkplumbingwg/multus-cni/pull/1300
    """
    (container,) = pod_of(render(f"--set=kubeletPlugin.nvml={nvml}"), "DaemonSet")["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "kubelet"]
    assert (mount["readOnly"], mount["mountPropagation"]) == (True, "HostToContainer")


@pytest.mark.parametrize(
    ("root", "mounted", "inside"),
    [
        ("/", "/", "/driver-root"),
        ("/run/nvidia/driver", "/run/nvidia", "/driver-root/driver"),
        ("/home/kubernetes/bin/nvidia/", "/home/kubernetes/bin", "/driver-root/nvidia"),
        ("/opt", "/", "/driver-root/opt"),
    ],
)
def test_a_driver_that_is_mounted_later_or_anew_is_seen(root: str, mounted: str, inside: str) -> None:
    """The GPU operator mounts its driver at its root when it comes: only from the folder above does that reach a container.

    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1144, https://github.com/NVIDIA/gpu-operator/issues/1741
    """
    pod = pod_of(render(f"--set=kubeletPlugin.driverRoot={root}"), "DaemonSet")
    (container,) = pod["containers"]
    (volume,) = [each["hostPath"] for each in pod["volumes"] if each["name"] == "driver-root"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "driver-root"]
    assert (volume["path"], mount["mountPath"], mount["mountPropagation"]) == (mounted, "/driver-root", "HostToContainer")
    assert {f"--driver-root={inside}", f"--driver-root-on-host={root.rstrip('/') or '/'}"} <= set(container["args"])
