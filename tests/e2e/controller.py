"""The driver's controller half as a process."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from hack.devcluster.processes import wait_until
from tests.e2e.process import DriverProcess, ProcessFailed

LEASE = "gpu-dra-controller"
LEADS = "leads"
TIMES_S = {"lease": 4.0, "renew": 3.0, "retry": 0.5, "request": 1.5}
"""Shorter than an operator's, so that a scenario need not wait a minute for a new leader."""
TAKEOVER_S = TIMES_S["lease"] * 2 + TIMES_S["request"] + 2 * TIMES_S["retry"]
"""How long until another one leads after a leader that did not release: its lease, then another, and what it had sent."""


@dataclass(slots=True, kw_only=True)
class Controller(DriverProcess):
    """One ``gpu-dra controller`` process. ``pod_uid`` is its identity: started anew it is the same pod's next container."""

    kubeconfig: Path
    logs: Path
    namespace: str
    port: int
    pod_uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def title(self) -> str:
        """How messages name it."""
        return "controller"

    @property
    def log_path(self) -> Path:
        """Everything that it said, over all its starts."""
        return self.logs / f"controller-{self.pod_uid[:8]}.log"

    def build_command(self) -> list[str]:
        """The command line."""
        flags = {
            "--kubeconfig": self.kubeconfig,
            "--namespace": self.namespace,
            "--pod-uid": self.pod_uid,
            "--health-address": f"127.0.0.1:{self.port}",
            "--log-format": "text",
            "--log-level": "debug",
        }
        named = [text for flag, value in flags.items() for text in (flag, str(value))]
        return [sys.executable, *self.launcher, "controller", *named, *self.options]

    def ask(self, page: str) -> tuple[int, str]:
        """A page of its health server; 0 where it does not answer."""
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self.port}{page}", timeout=3.0, retries=False)
        except urllib3.exceptions.HTTPError as err:
            return 0, str(err)
        return answer.status, answer.data.decode()

    def is_leader(self) -> bool:
        """Whether it says that it leads."""
        return self.is_running() and self.read_metric("gpu_dra_leader") == 1.0

    def wait_leading(self, *, timeout_s: float = 60.0) -> None:
        """Wait until it leads.

        Raises:
            ProcessFailed: it does not, or ended.
        """
        wait_until(lambda: self.is_leader() or not self.is_running(), timeout_s=timeout_s, interval_s=0.05)
        if not self.is_leader():
            raise ProcessFailed(f"the controller does not lead: {self.ask('/readyz')}; see {self.log_path}")

    def read_metric(self, name: str) -> float:
        """One sample of ``/metrics``, by its name with labels; 0 where it is not there."""
        lines = (line.rsplit(" ", 1) for line in self.ask("/metrics")[1].splitlines() if not line.startswith("#"))
        return next((float(value[0]) for sample, *value in lines if sample == name and value), 0.0)
