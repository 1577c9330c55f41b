"""A node whose plugin is a process of its own, between a stand-in API server and a stand-in kubelet."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from driver.claims.model import ClaimRef
from driver.names import ClaimUID
from driver.plugin.listener import build_target
from hack.bench.processes import Child, wait_until
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.kubelet import CallFailed, FakeKubelet

DRIVER = "gpu.nvidia.com"
NODE = "node-a"
SIGNS_OF_A_BUG = ("traceback", "a thread ended with an exception", "internal error", "failed as nobody expected")
GRPCS_OWN = '"logger":"grpc.'
"""gRPC tells of each message that is none, with a traceback."""
GPUS = 8


class Broken(Exception):
    """The plugin is not whole any more."""


class FuzzNode:
    """The folders, the process, and questions whose answers are known."""

    def __init__(self, folder: Path, api: FakeKubeApi, kubelet: FakeKubelet) -> None:
        self.folder = folder
        self.api = api
        self.kubelet = kubelet
        self.plugin_dir = folder / "p"
        self.cdi_root = folder / "cdi"
        self.faults_file = folder / "mock" / "faults.yaml"
        self._log = folder / "log"
        self._child = self._start()
        self.honest = self.allocate("honest", [self.devices()[-1]])
        self._answer = self.kubelet.prepare(DRIVER, [self.honest])

    def devices(self) -> list[str]:
        """The published names."""
        return sorted(each["name"] for one in self.api.objects("resourceslices") for each in one["spec"].get("devices", []))

    def allocate(self, name: str, devices: list[str]) -> ClaimRef:
        """A claim as kube-scheduler would leave it."""
        results = [{"request": "gpus", "driver": DRIVER, "pool": NODE, "device": each} for each in devices]
        status = {"allocation": {"devices": {"results": results}}}
        request = {
            "name": "gpus",
            "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": len(devices)},
        }
        spec = {"devices": {"requests": [request]}}
        made = self.api.create("resourceclaims", {"metadata": {"name": name, "namespace": "team"}, "spec": spec})
        self.api.edit("resourceclaims", name, lambda now: now | {"status": status}, namespace="team", is_status=True)
        return ClaimRef(namespace="team", name=name, uid=ClaimUID(made["metadata"]["uid"]))

    def claim_object(self, name: str) -> dict[str, Any]:
        """The API server's object."""
        return next(each for each in self.api.objects("resourceclaims") if each["metadata"]["name"] == name)

    def prepare(self, claim: ClaimRef) -> str | None:
        """None for success, else the plugin's words."""
        return self._ask(self.kubelet.prepare, claim)

    def unprepare(self, claim: ClaimRef) -> str | None:
        """None for success, else the plugin's words."""
        return self._ask(self.kubelet.unprepare, claim)

    def target(self) -> str:
        """The service as gRPC names it."""
        return build_target(self.socket())

    def socket(self) -> Path:
        """The service's socket."""
        return Path(self.kubelet.wait_registered(DRIVER, timeout_s=30).endpoint)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        self._child.popen.send_signal(number)

    def restart(self) -> None:
        """Killed, and started again on what lies there."""
        self._child.popen.kill()
        self._child.end()
        self._child = self._start()

    def check(self, where: str) -> None:
        """The process lives, nothing unexpected is in its log, a claim of before has its answer, a new one comes and goes.

        Raises:
            Broken
        """
        code = self._child.popen.poll()
        if code is not None:
            raise Broken(f"{where}: the process ended with code {code}:\n{self._child.read_log()}")
        log = self._log.read_text(errors="replace")
        bugs = [line for line in log.splitlines() if any(sign in line for sign in SIGNS_OF_A_BUG) and GRPCS_OWN not in line]
        if bugs:
            raise Broken(f"{where}: the log has an error that nobody expected:\n{bugs[0][:4000]}")
        if self.kubelet.prepare(DRIVER, [self.honest]) != self._answer:
            raise Broken(f"{where}: a prepared claim got another answer")
        self._check_a_claims_life(where)

    def _check_a_claims_life(self, where: str) -> None:
        before = self._files()
        claim = self.allocate(f"probe-{uuid.uuid4()}", [self.devices()[0]])
        said = self.prepare(claim) or self.unprepare(claim)
        if said is not None:
            raise Broken(f"{where}: a good claim was refused: {said}")
        left = self._files() - before
        if left:
            raise Broken(f"{where}: {sorted(left)} are left of a claim that came and went")

    def _files(self) -> set[str]:
        folders = (self.plugin_dir / "claims", self.plugin_dir / "dra-device-metadata", self.cdi_root)
        return {str(path.relative_to(self.folder)) for each in folders if each.exists() for path in each.rglob("*")}

    def _ask(self, call: Any, claim: ClaimRef) -> str | None:
        try:
            call(DRIVER, [claim])
        except (CallFailed, grpc.RpcError) as err:
            return str(err)
        return None

    def _start(self) -> Child:
        flags = {
            "--kubeconfig": self.api.write_kubeconfig(self.folder / "kubeconfig"),
            "--kubelet-root": self.folder,
            "--registry-dir": self.kubelet.registry_dir,
            "--plugin-dir": self.plugin_dir,
            "--cdi-root": self.cdi_root,
            "--mock-state-dir": self.faults_file.parent,
        }
        words = [f"{flag}={value}" for flag, value in flags.items()]
        program = str(Path(sys.executable).with_name("gpu-dra"))
        child = Child(
            [program, "kubelet-plugin", "--nvml=mock:dgx-h100", "--mig=off", f"--node-name={NODE}", *words], self._log
        )
        wait_until(lambda: len(self.devices()) == GPUS, "the GPUs to be published")
        self.kubelet.wait_registered(DRIVER, timeout_s=30)
        return child

    def end(self) -> int:
        """SIGTERM; the exit code."""
        self._child.end()
        return int(self._child.popen.returncode)


@contextlib.contextmanager
def fuzz_node() -> Iterator[FuzzNode]:
    """A node with a running plugin, in a folder with a short name: socket paths are limited."""
    folder = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    try:
        with FakeKubeApi() as api, FakeKubelet(folder / "reg") as kubelet:
            api.create("nodes", {"metadata": {"name": NODE}})
            node = FuzzNode(folder, api, kubelet)
            try:
                yield node
            finally:
                node.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
