"""The kubelet's two questions, and what an operator is told in each phase."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.pb.pluginregistration.v1 import api_pb2
from driver.plugin.registration import Phase, RegistrationService, RegistrationStatus, describe_registration
from tests.fakes.grpc_context import FakeContext

SOCKET = Path("/var/lib/kubelet/plugins_registry/gpu.nvidia.com-x-reg.sock")
CONTEXT = FakeContext().as_grpc()


class Service:
    """A service and how often it said that something changed."""

    def __init__(self) -> None:
        self.changes = 0
        self.service = RegistrationService(driver_name="gpu.nvidia.com", endpoint=Path("/run/dra.sock"), changed=self._count)

    def _count(self) -> None:
        self.changes += 1

    def ask(self) -> api_pb2.PluginInfo:
        return self.service.GetInfo(api_pb2.InfoRequest(), CONTEXT)

    def notify(self, *, error: str | None = None) -> api_pb2.RegistrationStatusResponse:
        status = api_pb2.RegistrationStatus(plugin_registered=error is None, error=error or "")
        return self.service.NotifyRegistrationStatus(status, CONTEXT)


def test_get_info_says_who_we_are_newest_version_first() -> None:
    """The kubelet takes the first DRAPlugin of the list that it knows."""
    assert Service().ask() == api_pb2.PluginInfo(
        type="DRAPlugin",
        name="gpu.nvidia.com",
        endpoint="/run/dra.sock",
        supported_versions=["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"],
    )


def test_the_phases_follow_the_kubelet() -> None:
    one = Service()
    seen = [one.service.status()]
    one.ask()
    seen.append(one.service.status())
    assert one.notify(error="no handler") == api_pb2.RegistrationStatusResponse()
    seen.append(one.service.status())
    one.ask()
    seen.append(one.service.status())
    one.notify()
    seen.append(one.service.status())
    one.notify()
    seen.append(one.service.status())
    assert seen == [
        RegistrationStatus(phase=Phase.NEVER_ASKED),
        RegistrationStatus(phase=Phase.ASKED),
        RegistrationStatus(phase=Phase.REFUSED, reason="no handler"),
        RegistrationStatus(phase=Phase.REFUSED, reason="no handler"),
        RegistrationStatus(phase=Phase.REGISTERED, count=1),
        RegistrationStatus(phase=Phase.REGISTERED, count=2),
    ]
    assert one.changes == 5


def test_a_refusal_without_words_still_has_a_reason() -> None:
    one = Service()
    one.notify(error="")
    one.service.NotifyRegistrationStatus(api_pb2.RegistrationStatus(plugin_registered=False), CONTEXT)
    assert one.service.status().reason == "the kubelet gave no reason"


def test_a_huge_reason_is_cut() -> None:
    one = Service()
    one.notify(error="x" * 100_000)
    assert one.service.status().reason == "x" * 1024


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (RegistrationStatus(), "our socket is in /var/lib/kubelet/plugins_registry"),
        (RegistrationStatus(phase=Phase.ASKED), "did not say how registration ended"),
        (RegistrationStatus(phase=Phase.REFUSED, reason="no handler"), "the kubelet refused the plugin: no handler"),
        (RegistrationStatus(phase=Phase.REGISTERED, count=1), "registered with the kubelet at /var/lib/kubelet"),
    ],
    ids=lambda value: value.phase.value if isinstance(value, RegistrationStatus) else "",
)
def test_each_phase_has_its_own_message(status: RegistrationStatus, says: str) -> None:
    """B58: refused carries the reason, never asked carries the folder."""
    assert says in describe_registration(status, SOCKET)
