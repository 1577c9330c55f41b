"""The floor: a bare gRPC server that answers a prepare with no more than two files made to last for each claim.

    python -m hack.bench.floor FOLDER [--kubeconfig FILE]

serves ``FOLDER/floor.sock``; with a kubeconfig also ``FOLDER/floor-get.sock``, which reads each claim from the API server
first, so that what the read costs is seen apart. Nothing is checked, remembered or locked.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from concurrent import futures
from pathlib import Path

import grpc

from driver.kube.client import KubeClient
from driver.kube.credentials import read_credentials
from driver.kube.resources import RESOURCE_CLAIMS
from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc

WORKERS = 64
_BODY = b"x" * 2048
"""As long as a CDI file and a record of one GPU are on a machine with few driver files."""


class Floor(v1_grpc.DRAPluginServicer):
    """Two files a claim; with a client, also one read."""

    def __init__(self, folder: Path, client: KubeClient | None) -> None:
        self._folder = folder
        self._client = client

    def NodePrepareResources(  # noqa: N802
        self, request: v1.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1.NodePrepareResourcesResponse:
        """As a prepare that does nothing else."""
        del context
        entries = {}
        for claim in request.claims:
            if self._client is not None:
                self._client.get(RESOURCE_CLAIMS, claim.name, namespace=claim.namespace)
            for kind in ("record", "cdi"):
                write_synced(self._folder / f"{kind}-{claim.uid}", _BODY)
            device = v1.Device(
                request_names=["gpus"],
                pool_name="bench",
                device_name="gpu-0",
                cdi_device_ids=[f"k8s.gpu.nvidia.com/claim={claim.uid}"],
            )
            entries[claim.uid] = v1.NodePrepareResourceResponse(devices=[device])
        return v1.NodePrepareResourcesResponse(claims=entries)

    def NodeUnprepareResources(  # noqa: N802
        self, request: v1.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> v1.NodeUnprepareResourcesResponse:
        """Deletes both files of each claim."""
        del context
        for claim in request.claims:
            for kind in ("record", "cdi"):
                (self._folder / f"{kind}-{claim.uid}").unlink(missing_ok=True)
        entry = v1.NodeUnprepareResourceResponse
        return v1.NodeUnprepareResourcesResponse(claims={claim.uid: entry() for claim in request.claims})


def write_synced(path: Path, data: bytes) -> None:
    """Temporary file, fsync, rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)


def serve(socket_path: Path, floor: Floor) -> grpc.Server:
    """A server on ``socket_path``, which appears when it can be called."""
    server = grpc.server(futures.ThreadPoolExecutor(WORKERS), options=(("grpc.so_reuseport", 0),))
    v1_grpc.add_DRAPluginServicer_to_server(floor, server)
    server.add_insecure_port(f"unix:{socket_path}")
    server.start()
    return server


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kubeconfig", default="")
    arguments = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    files = arguments.folder / "floor"
    files.mkdir(exist_ok=True)
    servers = [serve(arguments.folder / "floor.sock", Floor(files, None))]
    if arguments.kubeconfig:
        client = KubeClient(read_credentials(arguments.kubeconfig))
        servers.append(serve(arguments.folder / "floor-get.sock", Floor(files, client)))
    ended.wait()
    for server in servers:
        server.stop(None)


if __name__ == "__main__":
    main()
