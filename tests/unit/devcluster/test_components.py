"""The command lines and files of the cluster's parts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from hack.devcluster import components
from hack.devcluster.layout import DevclusterError, Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path / "home", cache=tmp_path / "cache", api_port=7443, etcd_port=3379)


def test_components_agree_on_ports(layout: Layout) -> None:
    etcd = components.build_component(layout, "etcd").argv
    apiserver = components.build_component(layout, "apiserver").argv
    assert "--listen-client-urls=http://127.0.0.1:3379" in etcd
    assert "--listen-peer-urls=http://127.0.0.1:3380" in etcd
    assert "--etcd-servers=http://127.0.0.1:3379" in apiserver
    assert "--secure-port=7443" in apiserver


def test_unknown_component_is_refused_with_the_known_ones(layout: Layout) -> None:
    with pytest.raises(DevclusterError, match="no component 'kublet'; there are etcd, apiserver"):
        components.build_component(layout, "kublet")


def test_every_component_of_the_start_order_can_be_built(layout: Layout) -> None:
    for name in components.START_ORDER:
        assert components.build_component(layout, name).argv


def test_containerd_reads_cdi_files_of_this_cluster_only(layout: Layout) -> None:
    components.write_configuration(layout)
    config = tomllib.loads((layout.home / "containerd.toml").read_text())
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["cdi_spec_dirs"] == [str(layout.cdi_root)]
    assert runtime["enable_cdi"] is True
    assert config["grpc"]["address"] == str(layout.containerd_socket)


def test_all_of_a_cluster_lies_below_its_home(layout: Layout) -> None:
    """What lies elsewhere is not found again when the cluster died half-way."""
    components.write_configuration(layout)
    config = tomllib.loads((layout.home / "containerd.toml").read_text())
    runc = config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runc"]
    folders = [config["root"], config["state"], runc["options"]["Root"]]
    kubelet = json.loads((layout.home / "kubelet.yaml").read_text())
    folders += [kubelet["podLogsDir"], kubelet["containerRuntimeEndpoint"].removeprefix("unix://")]
    assert all(folder.startswith(f"{layout.home}/") for folder in folders)
