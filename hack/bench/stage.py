"""A run's node: the plugin as installed, the stand-in kubelet that registers it, the floor beside it, and the callers."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hack.bench.calls import Claim, Order, Outcome, Step, Took, spread
from hack.bench.cluster import DRIVER, Author, Cluster, RealServer, StandIn
from hack.bench.machines import MANY, write_machine
from hack.bench.processes import BenchFailed, Child, python, wait_until
from tests.fakes.kubelet import FakeKubelet

NODE = "bench-node"
START_MARGIN_S = 0.05
"""Orders reach every client process within this; all callers begin together after it."""


class PluginNode:
    """Folders of a node, its kubelet, and the plugin's process on them."""

    def __init__(self, folder: Path, cluster: Cluster, machine: str, gpus: int, *, mig: str = "off") -> None:
        """``gpus`` is how many devices it publishes, MIG devices among them."""
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.gpus = gpus
        self.mock_state = folder / "mock"
        self._cluster = cluster
        self._machine = machine
        self._mig = mig
        self._kubelet = FakeKubelet(folder / "reg")
        self._kubelet.start()
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The plugin's process."""
        return self._running().pid

    @property
    def log(self) -> Path:
        """What the plugin says."""
        return self.folder / "plugin.log"

    def socket(self) -> str:
        """Where the plugin's calls go."""
        return self._kubelet.wait_registered(DRIVER).endpoint

    def start(self) -> float:
        """Start the plugin; seconds until it is registered and every GPU is published."""
        before = len(self._kubelet.notified)
        self._child = Child(self._build_argv(), self.log)
        try:
            wait_until(
                lambda: len(self._kubelet.notified) > before and self._is_published(),
                "the plugin to be registered and published",
            )
            self._kubelet.wait_registered(DRIVER)
        except Exception as err:
            raise BenchFailed(f"{err}\n{self._child.read_log()}") from err
        return time.monotonic() - self._child.started_at

    @property
    def started_at(self) -> float:
        """When the process was started, on the monotonic clock."""
        return self._running().started_at

    def stop(self) -> float:
        """SIGTERM; seconds until the process was gone."""
        child, self._child = self._running(), None
        return child.end()

    def end(self) -> None:
        """Everything of this node."""
        if self._child is not None:
            self.stop()
        self._kubelet.stop()

    def devices(self) -> list[str]:
        """The published devices' names, in the order of their numbers."""
        slices = self._cluster.slices(NODE)
        names = [device["name"] for each in slices for device in each["spec"].get("devices", [])]
        return sorted(names, key=lambda name: (len(name), name))

    def _is_published(self) -> bool:
        return len(self.devices()) == self.gpus

    def _running(self) -> Child:
        assert self._child is not None
        return self._child

    def _build_argv(self) -> list[str]:
        program = str(Path(sys.executable).with_name("gpu-dra"))
        folders = {
            "--kubelet-root": self.folder,
            "--registry-dir": self.folder / "reg",
            "--plugin-dir": self.folder / "p",
            "--cdi-root": self.folder / "cdi",
            "--mock-state-dir": self.mock_state,
            "--kubeconfig": self._cluster.kubeconfig,
        }
        words = [f"{flag}={value}" for flag, value in folders.items()]
        return [program, "kubelet-plugin", f"--nvml=mock:{self._machine}", f"--mig={self._mig}", f"--node-name={NODE}", *words]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured: everything, or a little of everything to see that it works."""

    pairs: int = 200
    few_pairs: int = 40
    rounds: int = 8
    starts: int = 5
    changes: int = 2
    """With the starts not more than the publisher's burst of writes, or its pause between bursts would be measured."""
    idle_s: float = 30.0
    settle_s: float = 2.5
    """A driver root that was made less than 2 s ago is searched anew at each prepare; the mock makes one at its first start."""
    quiet_s: float = 1.5
    """Requests that follow a publication (a watch, events) have come by then."""
    held: tuple[int, ...] = (0, 8, 48, 200)
    callers: tuple[int, ...] = (1, 8, 56)
    round_claims: int = 56


QUICK = Scale(
    pairs=3,
    few_pairs=2,
    rounds=1,
    starts=1,
    changes=1,
    idle_s=0.5,
    settle_s=0.0,
    quiet_s=0.2,
    held=(0, 8),
    callers=(1, 8),
    round_claims=8,
)


@dataclass(kw_only=True)
class Stage:
    """All that the measures work with. One plugin on a machine of 64 GPUs runs throughout; others start their own."""

    folder: Path
    cluster: Cluster
    author: Author
    scale: Scale
    floor: str
    floor_get: str
    floor_pid: int
    clients: list[Child]
    node: PluginNode
    socket: str = ""
    devices: list[str] = field(default_factory=list)

    def carry_out(self, callers: Sequence[Sequence[Step]]) -> list[tuple[Took, ...]]:
        """Callers side by side, dealt out to the client processes; what each call took, in no order of callers.

        Raises:
            BenchFailed: a call had an error.
        """
        shares = spread(tuple(tuple(steps) for steps in callers), len(self.clients))
        at = time.monotonic() + START_MARGIN_S if len(callers) > 1 else 0.0
        clients = self.clients[: len(shares)]
        for client, share in zip(clients, shares, strict=True):
            _send(client, Order(callers=share, at=at))
        outcomes = [msgspec.json.decode(client.read_line(), type=Outcome) for client in clients]
        took = [each for outcome in outcomes for each in outcome.callers]
        for call in (call for calls in took for call in calls):
            if call.error:
                raise BenchFailed(f"a call failed: {call.error}\n{self.node.log.read_text()[-2000:]}")
        return took

    def in_a_row(self, steps: Sequence[Step]) -> list[Took]:
        """One caller's calls."""
        return list(self.carry_out([steps])[0])

    def prepare(self, *claims: Claim) -> Step:
        """The plugin is to prepare."""
        return Step(self.socket, "prepare", claims)

    def unprepare(self, *claims: Claim) -> Step:
        """The plugin is to unprepare."""
        return Step(self.socket, "unprepare", claims)

    def floor_step(self, *claims: Claim) -> Step:
        """The floor is to do its two writes a claim."""
        return Step(self.floor, "prepare", claims)

    def floor_get_step(self, *claims: Claim) -> Step:
        """The floor is to read each claim, and to do its two writes."""
        return Step(self.floor_get, "prepare", claims)

    def make_claims(self, count: int, *, first_device: int = 0) -> list[Claim]:
        """So many claims of one GPU each, on GPUs of their own."""
        return [self.author.make_claim(NODE, [device]) for device in self.devices[first_device : first_device + count]]


@contextlib.contextmanager
def stage(scale: Scale, kubeconfig: Path | None, clients: int) -> Iterator[Stage]:
    """Everything started; all of it gone at the end. Folders lie in /tmp, where socket paths are short."""
    folder = Path(tempfile.mkdtemp(prefix="gb", dir="/tmp"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster: Cluster = StandIn(folder) if kubeconfig is None else RealServer(kubeconfig)
        stack.callback(cluster.end)
        author = Author(cluster)
        stack.callback(author.close)
        author.make_node(NODE)
        node = PluginNode(folder / "n", cluster, str(write_machine(folder, MANY)), MANY)
        stack.callback(node.end)
        floor = Child(python("hack.bench.floor", str(folder), "--kubeconfig", str(cluster.kubeconfig)), folder / "floor.log")
        _keep(stack, floor)
        made = Stage(
            folder=folder,
            cluster=cluster,
            author=author,
            scale=scale,
            floor=str(folder / "floor.sock"),
            floor_get=str(folder / "floor-get.sock"),
            floor_pid=floor.pid,
            clients=[
                _keep(stack, Child(python("hack.bench.client"), folder / f"client-{each}.log")) for each in range(clients)
            ],
            node=node,
        )
        wait_until(lambda: Path(made.floor).exists() and Path(made.floor_get).exists(), "the floor to serve")
        yield made


@contextlib.contextmanager
def many_gpus(made: Stage) -> Iterator[None]:
    """The plugin on the machine of many GPUs runs in this block."""
    made.node.start()
    made.socket = made.node.socket()
    made.devices = made.node.devices()
    time.sleep(made.scale.settle_s)
    try:
        yield
    finally:
        made.node.stop()


def _keep(stack: contextlib.ExitStack, child: Child) -> Child:
    stack.callback(child.end)
    return child


def _send(client: Child, order: Order) -> None:
    assert client.popen.stdin is not None
    client.popen.stdin.write(msgspec.json.encode(order) + b"\n")
    client.popen.stdin.flush()
