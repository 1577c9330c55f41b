"""Registration against a kubelet: accepted, refused, slow, silent, restarted, and with its folder wiped."""

from __future__ import annotations

import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from driver.errors import SocketUnusable
from driver.plugin.registration import Phase, RegistrationStatus
from tests.component.plugin.node import DRIVER, Heard, PluginNode
from tests.fakes.claim_service import build_devices, make_claim
from tests.fakes.kubelet import FakeKubelet, Manners, NotRegistered

PATIENCE_S = 30.0


def heard_registered(heard: Heard, times: int = 1) -> bool:
    return all(heard.registered.acquire(timeout=PATIENCE_S) for _ in range(times))


def test_the_kubelet_registers_the_plugin_and_says_so(node: PluginNode) -> None:
    heard = Heard()
    server = node.start(heard=heard)
    with FakeKubelet(node.registry_dir) as kubelet:
        plugin = kubelet.wait_registered(DRIVER)
        assert heard_registered(heard)
        assert (plugin.endpoint, plugin.service, plugin.health_service) == (
            str(server.paths.service),
            "v1.DRAPlugin",
            "v1.DRAResourceHealth",
        )
        assert server.registration() == RegistrationStatus(phase=Phase.REGISTERED, count=1)
        assert kubelet.notified == [(DRIVER, True, "")]


def test_a_plugin_that_comes_after_the_kubelet_is_found(node: PluginNode) -> None:
    with FakeKubelet(node.registry_dir) as kubelet:
        node.start()
        assert kubelet.wait_registered(DRIVER).name == DRIVER


def test_an_older_kubelet_takes_the_version_that_it_knows(node: PluginNode) -> None:
    """v1beta1 claims and v1alpha1 health, and the same devices."""
    node.start()
    manners = Manners(dra_services=("v1beta1.DRAPlugin",), health_services=("v1alpha1.DRAResourceHealth",))
    with FakeKubelet(node.registry_dir, manners) as kubelet:
        plugin = kubelet.wait_registered(DRIVER)
        assert (plugin.service, plugin.health_service) == ("v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth")
        assert kubelet.prepare(DRIVER, [make_claim()]) == {make_claim().uid: build_devices(make_claim().uid)}
        kubelet.unprepare(DRIVER, [make_claim()])
        assert kubelet.wait(lambda: kubelet.health(DRIVER) == {("node-a", "gpu-0"): ("HEALTHY", "")})


def test_a_refusal_is_kept_with_the_kubelets_reason(node: PluginNode) -> None:
    """B58: and said once, though the kubelet tries again and again."""
    heard = Heard()
    server = node.start(heard=heard)
    with FakeKubelet(
        node.registry_dir, Manners(refuse_with="driver is on the list of the banned", first_retry_s=0.05)
    ) as kubelet:
        assert kubelet.wait(lambda: len(kubelet.notified) >= 3 and bool(heard.troubles))
    assert server.registration() == RegistrationStatus(phase=Phase.REFUSED, reason="driver is on the list of the banned")
    assert heard.troubles == ["the kubelet refused the plugin: driver is on the list of the banned"]
    assert not server.is_ready()
    assert server.is_live()


def test_a_plugin_that_was_refused_is_registered_once_the_kubelet_lets_it(node: PluginNode) -> None:
    heard = Heard()
    server = node.start(heard=heard)
    with FakeKubelet(node.registry_dir, Manners(refuse_with="not yet", first_retry_s=0.05)) as kubelet:
        assert kubelet.wait(lambda: server.registration().phase is Phase.REFUSED)
        kubelet.manners = Manners()
        kubelet.wait_registered(DRIVER)
    assert heard_registered(heard)


def test_a_kubelet_that_never_asks_is_reported_with_the_folder(node: PluginNode) -> None:
    """B58: a moved kubelet root looks like this."""
    heard = Heard()
    server = node.start(node.settings(silence_s=0.1), heard=heard)
    with FakeKubelet(node.registry_dir, Manners(never_asks=True)) as kubelet:
        assert kubelet.wait(lambda: bool(heard.troubles))
        with pytest.raises(NotRegistered):
            kubelet.wait_registered(DRIVER, timeout_s=0.1)
    assert len(heard.troubles) == 1
    assert f"our socket is in {node.registry_dir}" in heard.troubles[0]
    assert server.registration().phase is Phase.NEVER_ASKED


def test_a_slow_kubelet_is_waited_for(node: PluginNode) -> None:
    node.start()
    with FakeKubelet(node.registry_dir, Manners(slow_s=0.5)) as kubelet:
        assert kubelet.wait_registered(DRIVER).name == DRIVER


def test_a_restarted_kubelet_finds_the_plugin_again_and_the_plugin_hears_it(node: PluginNode) -> None:
    """The kubelet deletes the node's slices when it starts: so each registration is told."""
    heard = Heard()
    server = node.start(heard=heard)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert heard_registered(heard)
        kubelet.restart()
        kubelet.wait_registered(DRIVER)
        assert heard_registered(heard)
        assert kubelet.prepare(DRIVER, [make_claim()])
    assert server.registration().count == 2


@pytest.mark.parametrize("damage", ["socket removed", "folder removed", "folder replaced", "another socket in its place"])
def test_a_socket_that_was_taken_away_comes_back(node: PluginNode, damage: str) -> None:
    heard = Heard()
    server = node.start(heard=heard)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert heard_registered(heard)
        break_registry(node.registry_dir, server.paths.registration, damage)
        assert heard_registered(heard)
        kubelet.wait_registered(DRIVER)
        assert kubelet.prepare(DRIVER, [make_claim()])
        assert kubelet.wait(server.is_ready)
    assert heard.troubles == []
    assert server.registration().phase is Phase.REGISTERED


def break_registry(folder: Path, socket_path: Path, damage: str) -> None:
    match damage:
        case "socket removed":
            socket_path.unlink()
        case "folder removed":
            shutil.rmtree(folder, ignore_errors=True)  # the plugin may put its socket back before the folder is empty
        case "folder replaced":
            folder.rename(folder.with_name("old"))
            folder.mkdir()
        case _:
            socket_path.unlink()
            leave_dead_socket(socket_path)


def leave_dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_a_socket_that_cannot_come_back_is_reported_until_it_can(node: PluginNode) -> None:
    """A mount whose folder was removed on the host takes no file any more: only a restart of the pod helps, so say it."""
    heard = Heard()
    server = node.start(replace(node.settings(), max_lost_s=1.0), heard=heard)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        kubelet.stop()
        node.registry_dir.rename(node.registry_dir.with_name("gone"))
        node.registry_dir.write_text("in the way")
        assert kubelet.wait(lambda: bool(heard.troubles))
        assert not server.is_ready()
        assert kubelet.wait(lambda: not server.is_live())
        node.registry_dir.unlink()
        kubelet.start()
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(server.is_ready)
        assert server.is_live()
    assert "cannot put the registration socket" in heard.troubles[0]
    assert "restart the pod" in heard.troubles[0]


def test_a_callback_with_a_bug_does_not_end_the_watch(node: PluginNode) -> None:
    heard = Heard()
    failing = [ValueError("a bug")]

    class FailingOnce(threading.Semaphore):
        def release(self, n: int = 1) -> None:
            if failing:
                raise failing.pop()
            super().release(n)

    heard.registered = FailingOnce(0)
    server = node.start(heard=heard)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER)
        assert kubelet.wait(lambda: not failing)
        server.paths.registration.unlink()
        assert kubelet.wait(lambda: server.registration().count == 2)


def test_a_plugin_that_cannot_start_leaves_nothing_behind(node: PluginNode) -> None:
    server = node.make(node.settings("one"))
    node.registry_dir.mkdir()
    server.paths.registration.mkdir()
    with pytest.raises(SocketUnusable, match="not a socket stands there"):
        server.start()
    assert node.sockets() == {server.paths.registration.name}
