"""Two instances on one node: neither touches the other, and the kubelet always has one to call."""

from __future__ import annotations

from tests.component.plugin.node import DRIVER, Heard, PluginNode
from tests.fakes.claim_service import ScriptedClaimService, make_claim
from tests.fakes.kubelet import FakeKubelet

OLD, NEW = "6f1b8c1e-3d0a-4c57-9a3b-2f0c5a7d9e11", "6f1b8c1e-3d0a-4c57-9a3b-2f0c5a7d9e12"


def test_an_upgrade_goes_over_to_the_new_instance_and_leaves_it_whole(node: PluginNode) -> None:
    """The old one stops after the new one is there: its stop must not take the new one's sockets (R15, B57)."""
    services = {OLD: ScriptedClaimService(), NEW: ScriptedClaimService()}
    with FakeKubelet(node.registry_dir) as kubelet:
        old = node.start(node.settings(OLD), services[OLD])
        kubelet.wait_registered(DRIVER)
        kubelet.prepare(DRIVER, [make_claim(1)])
        new = node.start(node.settings(NEW), services[NEW])
        kubelet.wait_registered(DRIVER, count=2)
        kubelet.prepare(DRIVER, [make_claim(2)])
        assert node.stop(old)
        assert kubelet.wait(lambda: [each.endpoint for each in kubelet.plugins(DRIVER)] == [str(new.paths.service)])
        kubelet.prepare(DRIVER, [make_claim(3)])
        kubelet.unprepare(DRIVER, [make_claim(1)])
    assert node.sockets() == {new.paths.service.name, new.paths.registration.name, new.paths.lock.name}
    assert services[OLD].prepared == {make_claim(1).uid}
    assert services[NEW].prepared == {make_claim(2).uid, make_claim(3).uid}


def test_an_upgrade_that_is_taken_back_goes_over_to_the_old_instance(node: PluginNode) -> None:
    with FakeKubelet(node.registry_dir) as kubelet:
        old = node.start(node.settings(OLD))
        new = node.start(node.settings(NEW))
        kubelet.wait_registered(DRIVER, count=2)
        node.stop(new)
        assert kubelet.wait(lambda: [each.endpoint for each in kubelet.plugins(DRIVER)] == [str(old.paths.service)])
        assert kubelet.prepare(DRIVER, [make_claim(1)])


def test_without_a_pod_uid_instances_are_still_apart(node: PluginNode) -> None:
    heard = [Heard(), Heard()]
    servers = [node.start(heard=each) for each in heard]
    assert len({each.paths.service for each in servers}) == 2
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER, count=2)
        assert all(each.registered.acquire(timeout=30) for each in heard)
    assert heard[0].troubles == heard[1].troubles == []


def test_a_kubelet_that_starts_late_finds_both(node: PluginNode) -> None:
    services = ScriptedClaimService()
    node.start(node.settings(OLD), services)
    node.start(node.settings(NEW), services)
    with FakeKubelet(node.registry_dir) as kubelet:
        kubelet.wait_registered(DRIVER, count=2)
        kubelet.restart()
        kubelet.wait_registered(DRIVER, count=2)
        assert kubelet.prepare(DRIVER, [make_claim(1)])
