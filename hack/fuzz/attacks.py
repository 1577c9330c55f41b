"""What is thrown, kind by kind. An attack yields after each throw, and has then taken its own leavings away."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import yaml

from driver.claims.model import ClaimRef
from driver.cli.main import main
from driver.names import ClaimUID
from driver.pb.dra.v1 import api_pb2 as v1
from hack.fuzz.mutate import Mutator
from hack.fuzz.node import DRIVER, NODE, Broken, FuzzNode
from tests.fakes.kube_api import Fault

Attack: TypeAlias = Callable[[FuzzNode, Mutator], Iterator[None]]

SERVICE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
MACHINES = Path(__file__).parents[2] / "driver/nvml/mock/machines"
FAULTS = {
    "faults": [
        {"kind": "call-fails", "call": "nvmlDeviceGetName", "code": "UNKNOWN", "gpu": 2, "times": 3},
        {"kind": "call-hangs", "call": "nvmlDeviceGetUUID", "seconds": 0.01, "gpu": 1},
        {"kind": "gpu-lost", "gpu": 3},
        {"kind": "link-down", "gpu": 0, "links": [0, 5]},
    ]
}


def throw_messages(node: FuzzNode, mutator: Mutator) -> Iterator[None]:
    """Bytes on the socket, and messages in calls: random ones, torn ones, and legal ones with strange words."""
    with grpc.insecure_channel(node.target()) as channel:
        while True:
            claims = [
                v1.Claim(
                    namespace=mutator.text(), name=mutator.text(), uid=mutator.text() if mutator.rng.random() < 0.7 else _uid()
                )
                for _ in range(mutator.rng.choice((0, 1, 3, 3, 600)))
            ]
            data = v1.NodePrepareResourcesRequest(claims=claims).SerializeToString()
            if mutator.rng.random() < 0.5:
                data = mutator.bytes(data)
            name = mutator.rng.choice(("NodePrepareResources", "NodeUnprepareResources", mutator.text()[:40]))
            _call(channel, name, data)
            if mutator.rng.random() < 0.2:
                _send_raw(node.socket(), mutator.bytes(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"))
            yield


def throw_answers(node: FuzzNode, mutator: Mutator) -> Iterator[None]:
    """Answers of the API server to the reading of a claim, now and then to the list and the watch of slices."""
    claim = node.allocate("victim", [node.devices()[1]])
    good = node.claim_object("victim")
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    good["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    good["status"]["allocation"]["devices"]["config"] = [
        {"source": "FromClaim", "requests": ["gpus"], "opaque": {"driver": DRIVER, "parameters": parameters}}
    ]
    while True:
        body = mutator.json_bytes(good)
        node.api.fail(
            Fault(verb="get", resource="resourceclaims", kind="raw", status=mutator.rng.choice((200, 200, 200, 404)), body=body)
        )
        if mutator.rng.random() < 0.05:
            slices = node.api.objects("resourceslices")
            node.api.fail(Fault(verb="watch", resource="resourceslices", kind="stream", body=_events(mutator, slices)))
            node.api.close_idle_connections()
        node.prepare(claim)
        said = node.unprepare(claim)
        if said is not None:
            raise Broken(f"a claim cannot be released after the answer {body[:2000]!r}: {said}")
        node.api.heal()
        yield


def throw_files(node: FuzzNode, mutator: Mutator) -> Iterator[None]:
    """Records and CDI files of claims that are not, and of one that is; a start on them now and then."""
    keeper = node.allocate("keeper", [node.devices()[2]])
    while True:
        uid = _uid()
        record = node.plugin_dir / "claims" / f"{uid}.json"
        grant = node.cdi_root / f"k8s.gpu.nvidia.com-claim_{uid}.json"
        body = (
            json.loads(mutator.json_bytes(_record(uid)).decode(errors="replace")) if mutator.rng.random() < 0 else _record(uid)
        )
        spoilt = mutator.json_bytes(body)
        sealed = b'{"sha256":"%s","record":%s}' % (hashlib.sha256(spoilt).hexdigest().encode(), spoilt)
        _place(mutator, record, sealed)
        _place(mutator, grant, mutator.json_bytes(_grant(body)))
        if mutator.rng.random() < 0.03:
            node.restart()
        ref = ClaimRef(namespace="team", name="x", uid=ClaimUID(uid))
        node.prepare(ref)
        node.unprepare(ref)
        for each in (record, record.with_suffix(".corrupt"), grant):  # as an operator would in the end
            _remove(each)
        _check_keeper(node, mutator, keeper)
        yield


def throw_machines(node: FuzzNode, mutator: Mutator) -> Iterator[None]:
    """Machine files for ``inspect`` and ``record``, and fault files under the running plugin."""
    goods = [path.read_bytes() for path in sorted(MACHINES.glob("*.yaml"))]
    path = node.folder / "machine.yaml"
    while True:
        good = mutator.rng.choice(goods)
        path.write_bytes(mutator.bytes(good) if mutator.rng.random() < 0.4 else mutator.json_bytes(yaml.safe_load(good)))
        _run_program(path, mutator.rng.choice(("inspect", "record")))
        if mutator.rng.random() < 0.3:
            node.faults_file.write_bytes(mutator.json_bytes(FAULTS))
            node.send(signal.SIGHUP)
            node.faults_file.unlink()
        yield


ATTACKS: dict[str, Attack] = {
    "messages": throw_messages,
    "answers": throw_answers,
    "files": throw_files,
    "machines": throw_machines,
}


def _uid() -> str:
    return str(uuid.uuid4())


def _call(channel: grpc.Channel, name: str, data: bytes) -> None:
    """Every claim that could be read has an answer of its own (B59)."""
    try:
        path = (SERVICE + name).encode("ascii", "replace").decode().replace("\0", "")
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        answer = method(data, timeout=60)
    except (grpc.RpcError, ValueError):
        return
    asked = {claim.uid for claim in v1.NodePrepareResourcesRequest.FromString(data).claims}
    response = v1.NodePrepareResourcesResponse if name == "NodePrepareResources" else v1.NodeUnprepareResourcesResponse
    answered = response.FromString(answer)
    if set(answered.claims) != asked:
        raise Broken(f"{name} of {len(asked)} claims has {len(answered.claims)} answers; the call was {data[:500]!r}")


def _send_raw(path: Path, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as raw, contextlib.suppress(OSError):
        raw.settimeout(5)
        raw.connect(str(path))
        raw.sendall(data)


def _events(mutator: Mutator, slices: list[Any]) -> bytes:
    events = [
        {"type": mutator.rng.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")), "object": each} for each in slices
    ]
    return b"\n".join(mutator.json_bytes(each) for each in events) + b"\n"


def _record(uid: str) -> dict[str, Any]:
    device = {
        "request": "gpus",
        "pool": NODE,
        "device": "gpu-0000-61-00-0",
        "uuid": "GPU-x",
        "cdiDeviceIDs": [f"k8s.gpu.nvidia.com/claim={uid}-gpu-0000-61-00-0"],
    }
    return {
        "version": 1,
        "state": "PrepareCompleted",
        "namespace": "team",
        "name": "x",
        "uid": uid,
        "allocation": "a" * 64,
        "epoch": {"bootId": "b", "driverVersion": "580.159.04", "loadMarker": "1"},
        "devices": [device],
    }


def _grant(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "cdiVersion": "0.6.0",
        "kind": "k8s.gpu.nvidia.com/claim",
        "annotations": {"gpu-dra.io/owner": f"{DRIVER}/{NODE}", "gpu-dra.io/record": json.dumps(record)},
        "devices": [{"name": f"{record['uid']}-gpu-0000-61-00-0", "containerEdits": {"env": ["A=b"]}}],
    }


def _place(mutator: Mutator, path: Path, data: bytes) -> None:
    """Nothing, the bytes, or something that is no plain file."""
    match mutator.rng.randrange(10):
        case 0 | 1:
            return
        case 2:
            os.mkfifo(path)
        case 3:
            path.symlink_to(mutator.rng.choice(("/dev/zero", "/nonexistent", "/etc", path.name)))
        case 4:
            path.mkdir()
        case _:
            path.write_bytes(data)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _check_keeper(node: FuzzNode, mutator: Mutator, keeper: ClaimRef) -> None:
    """A prepared claim whose CDI file is spoilt gets the same file back, or says why not."""
    node.prepare(keeper)
    grant = node.cdi_root / f"k8s.gpu.nvidia.com-claim_{keeper.uid}.json"
    before = grant.read_bytes()
    grant.unlink()
    _place(mutator, grant, mutator.bytes(before)[: len(before) - 1])
    said = node.prepare(keeper)
    if said is None and (grant.is_symlink() or grant.read_bytes() != before):
        raise Broken(f"prepared, but {grant} is not what it was")
    _remove(grant)
    said = node.unprepare(keeper)
    if said is not None:
        raise Broken(f"a claim whose CDI file was spoilt cannot be released: {said}")


def _run_program(path: Path, command: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main([command, "--nvml", f"mock:{path}"])
    if code not in (0, 1, 2):
        raise Broken(f"{command} ended with code {code}")
