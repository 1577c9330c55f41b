"""Where a dev cluster's files lie follows from a few variables, and what cannot work is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.devcluster.build import MODULES, plan_binaries
from hack.devcluster.layout import KUBE_VERSIONS, DevclusterError, Layout, read_layout, read_started, write_started


def test_default_home_is_short_and_binaries_are_kept_elsewhere() -> None:
    layout = read_layout({"HOME": "/home/ada"})
    assert layout == Layout(home=Path("/run/gpu-dra-dev"), cache=Path("/home/ada/.cache/gpu-dra-devcluster"))
    assert layout.kubelet_root == Path("/run/gpu-dra-dev/kubelet")
    assert layout.kube_bin == Path("/home/ada/.cache/gpu-dra-devcluster/bin-v1.37.2")


def test_variables_choose_everything() -> None:
    layout = read_layout(
        {
            "KUBE_VERSION": "v1.34.4",
            "DEVCLUSTER_HOME": "/tmp/c",
            "DEVCLUSTER_CACHE": "/var/cache/c",
            "DEVCLUSTER_NODE": "node-b",
            "DEVCLUSTER_API_PORT": "7443",
            "DEVCLUSTER_ETCD_PORT": "3379",
        }
    )
    expected = Layout(
        home=Path("/tmp/c"), cache=Path("/var/cache/c"), kube_version="1.34.4", node="node-b", api_port=7443, etcd_port=3379
    )
    assert layout == expected
    assert layout.api_server == "https://127.0.0.1:7443"


def test_unknown_kubernetes_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DevclusterError, match=r"1\.33\.0 has no module files here; use one of 1\.37\.2, 1\.36\.3, 1\.34\.4"):
        read_layout({"KUBE_VERSION": "1.33.0"})


def test_home_that_makes_socket_paths_too_long_is_refused() -> None:
    """The kernel's limit is 107 bytes, and the usual name of a plugin's socket has to fit (R42)."""
    with pytest.raises(DevclusterError, match="socket paths of 108 bytes"):
        read_layout({"DEVCLUSTER_HOME": "/run/gpu-dra-dev-34567"})


def test_later_commands_see_the_cluster_as_it_was_started(tmp_path: Path) -> None:
    started = Layout(home=tmp_path, cache=tmp_path / "cache", kube_version="1.34.4", node="node-b", api_port=7443)
    write_started(started)
    assert read_started(Layout(home=tmp_path)) == started


@pytest.mark.parametrize("content", [None, "", "{"], ids=["no file", "empty", "half-written"])
def test_no_cluster_is_found_where_none_was_started(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "cluster.json").write_text(content)
    assert read_started(Layout(home=tmp_path)) is None


def test_environment_names_the_folders_that_a_plugin_needs(tmp_path: Path) -> None:
    environment = Layout(home=tmp_path).environment()
    assert environment["KUBELET_PLUGINS_REGISTRY"] == str(tmp_path / "kubelet" / "plugins_registry")
    assert environment["CDI_ROOT"] == str(tmp_path / "cdi")


@pytest.mark.parametrize("version", KUBE_VERSIONS)
def test_every_binary_has_a_committed_module(version: str) -> None:
    """Each module folder has a go.sum, so that what is built is what was reviewed."""
    binaries = list(plan_binaries(Layout(kube_version=version)))
    assert {binary.module.name for binary in binaries} == {f"kubernetes-{version}", "etcd", "containerd", "cni", "helm"}
    assert all((binary.module / "go.sum").exists() for binary in binaries)
    kubelet = next(binary for binary in binaries if binary.output.name == "kubelet")
    assert f"gitVersion=v{version}" in kubelet.ldflags


@pytest.mark.parametrize("version", KUBE_VERSIONS)
def test_staging_modules_are_those_of_the_release(version: str) -> None:
    """A staging module of another release would be another Kubernetes under this one's name."""
    text = (MODULES / f"kubernetes-{version}" / "go.mod").read_text()
    replaced = [line.split()[-1] for line in text.splitlines() if " => k8s.io/" in line]
    assert set(replaced) == {"v0." + version.split(".", 1)[1]}
    assert len(replaced) > 25
