"""A plugin on a socket, for contracts that are written in bytes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from driver.errors import DeviceInUse
from driver.plugin.health import Health
from driver.plugin.listener import build_target
from driver.plugin.server import PluginServer
from tests.component.plugin.node import PluginNode, make_board
from tests.fakes.claim_service import ScriptedClaimService, make_uid


@pytest.fixture(scope="module")
def plugin() -> Iterator[PluginServer]:
    """A plugin that prepares every claim but number 2."""
    root = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))
    node = PluginNode(root)
    service = ScriptedClaimService(answers={make_uid(2): DeviceInUse("held")})
    yield node.start(node.settings("pod"), service, board=make_board(Health.UNHEALTHY))
    node.stop_all()
    shutil.rmtree(root)


@pytest.fixture
def service_channel(plugin: PluginServer) -> Iterator[grpc.Channel]:
    """A connection to the endpoint."""
    with grpc.insecure_channel(build_target(plugin.paths.service)) as channel:
        yield channel


@pytest.fixture
def registration_channel(plugin: PluginServer) -> Iterator[grpc.Channel]:
    """A connection to the registration socket."""
    with grpc.insecure_channel(build_target(plugin.paths.registration)) as channel:
        yield channel
