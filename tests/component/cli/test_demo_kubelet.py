"""The demo's kubelet against the plugin's real servers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.cli.demo.kubelet import Answer, DemoFailed, DemoKubelet
from driver.errors import DeviceInUse
from driver.plugin.health import HealthBoard
from driver.plugin.server import PluginCallbacks, PluginServer, PluginSettings
from tests.fakes.claim_service import ScriptedClaimService, make_claim


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, since those of sockets have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gd-") as path:
        yield Path(path)


def _server(folder: Path, service: ScriptedClaimService) -> PluginServer:
    registry, plugin = folder / "registry", folder / "plugin"
    registry.mkdir(exist_ok=True)
    plugin.mkdir(exist_ok=True)
    settings = PluginSettings(driver_name="gpu.nvidia.com", plugin_dir=plugin, registry_dir=registry)
    return PluginServer(settings, service, HealthBoard(), PluginCallbacks(on_registered=lambda: None))


@pytest.fixture
def service() -> ScriptedClaimService:
    return ScriptedClaimService(answers={make_claim(2).uid: DeviceInUse("gpu-0 is held")})


@pytest.fixture
def kubelet(folder: Path, service: ScriptedClaimService) -> Iterator[DemoKubelet]:
    server = _server(folder, service)
    server.start()
    kubelet = DemoKubelet(folder / "registry")
    registered = kubelet.register(10)
    assert (registered.name, registered.endpoint) == ("gpu.nvidia.com", str(server.paths.service))
    assert registered.versions[:2] == ("v1.DRAPlugin", "v1beta1.DRAPlugin")
    yield kubelet
    server.stop(2.0)


def test_each_claim_of_a_call_has_its_own_answer(kubelet: DemoKubelet) -> None:
    good, bad = make_claim(1), make_claim(2)
    answers = kubelet.prepare([good, bad])
    assert answers[good.uid] == Answer(cdi_ids={"gpu": (f"k8s.gpu.nvidia.com/claim={good.uid}-gpu-0",)}, error="")
    assert answers[bad.uid].cdi_ids == {}
    assert "gpu-0 is held" in answers[bad.uid].error


def test_unprepare_says_nothing_where_all_went_well(kubelet: DemoKubelet, service: ScriptedClaimService) -> None:
    claim = make_claim(1)
    kubelet.prepare([claim])
    assert kubelet.unprepare([claim]) == {claim.uid: ""}
    assert service.prepared == set()


def test_a_plugin_that_never_comes_is_said_with_the_folder(folder: Path) -> None:
    with pytest.raises(DemoFailed, match=f"no plugin came to {folder}/registry within 0 s"):
        DemoKubelet(folder / "registry").register(0.2)


def test_a_second_instance_is_a_new_registration(folder: Path, kubelet: DemoKubelet, service: ScriptedClaimService) -> None:
    second = _server(folder, service)
    second.start()
    assert kubelet.register(10).endpoint == str(second.paths.service)
    second.stop(2.0)
    with pytest.raises(DemoFailed, match="NodePrepareResources: UNAVAILABLE"):
        kubelet.prepare([make_claim(1)])
