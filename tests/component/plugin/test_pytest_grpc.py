"""The DRA service through the fixtures of pytest-grpc, in its real-server mode, on a unix socket.

Its own default, a TCP port, leaks a socket (a ResourceWarning, which is an error here), and its fake-server mode does not work
with the grpcio of today. So ``grpc_addr`` is ours.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from driver.errors import DeviceInUse
from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc
from driver.plugin.dra import DraCalls, DraV1
from tests.fakes.claim_service import ScriptedClaimService, make_claim, make_uid


@pytest.fixture(scope="module")
def grpc_add_to_server() -> Callable[..., None]:
    """How pytest-grpc registers the servicer."""
    return v1_grpc.add_DRAPluginServicer_to_server


@pytest.fixture(scope="module")
def grpc_servicer() -> DraV1:
    """What pytest-grpc serves: the second claim's device is held."""
    return DraV1(DraCalls(ScriptedClaimService(answers={make_uid(2): DeviceInUse("gpu-0 is held by claim a/b")})))


@pytest.fixture(scope="module")
def grpc_stub_cls() -> type[v1_grpc.DRAPluginStub]:
    """What pytest-grpc calls with."""
    return v1_grpc.DRAPluginStub


@pytest.fixture(scope="module")
def grpc_addr() -> Iterator[str]:
    """A socket instead of pytest-grpc's port."""
    folder = tempfile.mkdtemp(prefix="k", dir="/tmp")
    yield f"unix:{folder}/dra.sock"
    shutil.rmtree(folder)


def test_good_and_bad_claims_get_their_own_entries(grpc_stub: Any) -> None:
    """B59: an entry for each."""
    claims = [v1.Claim(namespace=each.namespace, name=each.name, uid=each.uid) for each in (make_claim(1), make_claim(2))]
    response = grpc_stub.NodePrepareResources(v1.NodePrepareResourcesRequest(claims=claims))
    assert {uid: (len(entry.devices), entry.error) for uid, entry in response.claims.items()} == {
        make_uid(1): (1, ""),
        make_uid(2): (0, "gpu-0 is held by claim a/b"),
    }


def test_an_unknown_claim_is_released(grpc_stub: Any) -> None:
    request = v1.NodeUnprepareResourcesRequest(claims=[v1.Claim(namespace="a", name="b", uid=make_uid(9))])
    assert grpc_stub.NodeUnprepareResources(request) == v1.NodeUnprepareResourcesResponse(
        claims={make_uid(9): v1.NodeUnprepareResourceResponse()}
    )
