"""A kubelet, as far as a DRA plugin meets one: the real registration and calls over real sockets, in one process.

    with FakeKubelet(registry_dir) as kubelet:
        plugin = kubelet.wait_registered("gpu.nvidia.com")       # the newest instance; raises NotRegistered after 10 s
        devices = kubelet.prepare("gpu.nvidia.com", [claim])     # {uid: (PreparedDevice, ...)}; raises CallFailed
        kubelet.unprepare("gpu.nvidia.com", [claim])
        kubelet.health("gpu.nvidia.com")                         # {(pool, device): (state, message)}, as the stream said last
        kubelet.restart()                                        # forgets everything, registers what it finds in the folder

Like the kubelet of 1.37.2 it skips names that begin with a dot and files that are no sockets, dials the registration socket
with the percent-encoded path as authority and the service with ``localhost``, gives ``GetInfo`` one second and ``Notify``
five, retries a registration with a growing pause, takes the first DRAPlugin version of the plugin's own list that it knows,
refuses two plugins on one endpoint, calls the newest *connected* instance, gives a call 45 seconds, and closes the
connection of a plugin whose registration socket goes, running calls included. It looks at the folder 50 times a second
where the real one uses inotify.

``Manners`` makes it difficult: ``refuse_with="text"``, ``never_asks=True``, ``slow_s=0.8`` (before ``GetInfo``).
"""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from driver.claims.model import ClaimRef, PreparedDevice
from driver.names import ClaimUID
from driver.pb.dra_health.v1 import api_pb2 as health_v1
from driver.pb.pluginregistration.v1 import api_pb2 as registration
from driver.pb.pluginregistration.v1 import api_pb2_grpc as registration_grpc
from tests.fakes import kubelet_wire
from tests.fakes.kubelet_wire import CallFailed

DRA_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")

__all__ = ["CallFailed", "FakeKubelet", "Manners", "NotRegistered", "Plugin"]

HealthTable: TypeAlias = dict[tuple[str, str], tuple[str, str]]


class NotRegistered(Exception):
    """No plugin of the driver is registered; the kubelet's own words."""


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How this kubelet treats plugins."""

    refuse_with: str | None = None
    never_asks: bool = False
    slow_s: float = 0.0
    dra_services: tuple[str, ...] = DRA_SERVICES
    """What it can speak; an older kubelet has fewer."""
    health_services: tuple[str, ...] = HEALTH_SERVICES
    call_timeout_s: float = 45.0
    health_retry_s: float = 5.0
    first_retry_s: float = 0.5


@dataclass(kw_only=True)
class Plugin:
    """A registered instance."""

    name: str
    endpoint: str
    socket: Path
    supported_versions: tuple[str, ...]
    service: str
    health_service: str | None
    channel: grpc.Channel
    is_connected: bool = False
    is_gone: threading.Event = field(default_factory=threading.Event)
    health: HealthTable = field(default_factory=dict)
    health_messages: int = 0
    stream: Any = None
    threads: list[threading.Thread] = field(default_factory=list)


class FakeKubelet:
    """See the module's text. Every method may be called from any thread."""

    def __init__(self, registry_dir: Path, manners: Manners | None = None) -> None:
        self.registry_dir = registry_dir
        self.manners = manners or Manners()
        self.notified: list[tuple[str, bool, str]] = []
        """Each registration that ended: (driver name, accepted, text)."""
        self._changed = threading.Condition()
        self._plugins: dict[Path, Plugin] = {}
        self._order: list[Path] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> FakeKubelet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Watch the folder, made if need be; every socket that is there already counts as new."""
        self.registry_dir.mkdir(parents=True, exist_ok=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(self._stop,), name="fake-kubelet")
        self._thread.start()

    def stop(self) -> None:
        """Forget every plugin and close its connection."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for socket_path in list(self._order):
            self._deregister(socket_path)

    def restart(self) -> None:
        """As a restart of the kubelet's process."""
        self.stop()
        self.start()

    def wait_registered(self, driver: str, *, timeout_s: float = 10.0, count: int = 1) -> Plugin:
        """The newest instance, once at least ``count`` are registered and connected."""
        if not self.wait(lambda: len([each for each in self.plugins(driver) if each.is_connected]) >= count, timeout_s):
            raise NotRegistered(f"DRA driver {driver} is not registered ({len(self.plugins(driver))} of {count} instances)")
        return self.plugins(driver)[-1]

    def wait(self, is_true: Callable[[], bool], timeout_s: float = 10.0) -> bool:
        """Whether the condition became true in time; looked at after each change here, and ten times a second."""
        give_up_at = time.monotonic() + timeout_s
        while not is_true():
            if time.monotonic() > give_up_at:
                return False
            with self._changed:
                self._changed.wait(0.1)
        return True

    def plugins(self, driver: str) -> list[Plugin]:
        """The registered instances, oldest first."""
        with self._changed:
            return [self._plugins[path] for path in self._order if self._plugins[path].name == driver]

    def prepare(
        self, driver: str, claims: Sequence[ClaimRef], *, timeout_s: float | None = None
    ) -> dict[ClaimUID, tuple[PreparedDevice, ...]]:
        """``NodePrepareResources`` for these claims in one call, with the kubelet's checks of the answer."""
        plugin = self._choose(driver)
        v1, stub = kubelet_wire.dra_stub(plugin.channel, plugin.service)
        request = v1.NodePrepareResourcesRequest(claims=[kubelet_wire.claim(v1, each) for each in claims])
        response = self._call("NodePrepareResources", stub.NodePrepareResources, request, timeout_s)
        kubelet_wire.check("NodePrepareResources", claims, response.claims)
        return {
            ClaimUID(uid): tuple(kubelet_wire.device(each) for each in entry.devices) for uid, entry in response.claims.items()
        }

    def unprepare(self, driver: str, claims: Sequence[ClaimRef], *, timeout_s: float | None = None) -> None:
        """``NodeUnprepareResources`` for these claims in one call, with the kubelet's checks of the answer."""
        plugin = self._choose(driver)
        v1, stub = kubelet_wire.dra_stub(plugin.channel, plugin.service)
        request = v1.NodeUnprepareResourcesRequest(claims=[kubelet_wire.claim(v1, each) for each in claims])
        response = self._call("NodeUnprepareResources", stub.NodeUnprepareResources, request, timeout_s)
        kubelet_wire.check("NodeUnprepareResources", claims, response.claims)

    def health(self, driver: str) -> HealthTable:
        """What the newest instance's stream has said so far: ``{(pool, device): ("HEALTHY", message)}``."""
        plugins = self.plugins(driver)
        with self._changed:
            return dict(plugins[-1].health) if plugins else {}

    def _choose(self, driver: str) -> Plugin:
        plugins = self.plugins(driver)
        if not plugins:
            raise NotRegistered(f"DRA driver {driver} is not registered")
        connected = [each for each in plugins if each.is_connected]
        return (connected or plugins)[-1]

    def _call(self, name: str, method: Any, request: Any, timeout_s: float | None) -> Any:
        try:
            return method(request, timeout=self.manners.call_timeout_s if timeout_s is None else timeout_s)
        except grpc.RpcError as err:
            raise CallFailed(f"{name}: {err.code().name}: {err.details()}") from err

    def _watch(self, stop: threading.Event) -> None:
        seen: dict[Path, tuple[int, int]] = {}
        retry_at: dict[Path, tuple[float, float]] = {}
        while not stop.is_set():
            found = kubelet_wire.find_sockets(self.registry_dir)
            for path in [path for path in seen if found.get(path) != seen[path]]:
                del seen[path]
                retry_at.pop(path, None)
                self._deregister(path)
            for path in [path for path in found if path not in seen and time.monotonic() >= retry_at.get(path, (0, 0))[0]]:
                if self.manners.never_asks or self._register(path, stop):
                    seen[path] = found[path]
                else:
                    pause = min(2 * retry_at.get(path, (0, self.manners.first_retry_s / 2))[1], 122.0)
                    retry_at[path] = (time.monotonic() + pause, pause)
            stop.wait(0.02)

    def _register(self, socket_path: Path, stop: threading.Event) -> bool:
        """One try; true when there is nothing more to do for this socket."""
        authority = ("grpc.default_authority", urllib.parse.quote(str(socket_path), safe=""))
        with grpc.insecure_channel(f"unix:{socket_path}", options=(authority, OWN_CONNECTION)) as channel:
            stub = registration_grpc.RegistrationStub(channel)
            try:
                stop.wait(self.manners.slow_s)
                info = stub.GetInfo(registration.InfoRequest(), timeout=1)
                taken = [each.endpoint for each in self.plugins(info.name)]
                fault = self.manners.refuse_with or kubelet_wire.find_fault(info, self.manners.dra_services, taken)
                if fault is None:
                    self._add(info, socket_path)
                self.notified.append((info.name, fault is None, fault or ""))
                stub.NotifyRegistrationStatus(
                    registration.RegistrationStatus(plugin_registered=fault is None, error=fault or ""), timeout=5
                )
            except grpc.RpcError:
                self._deregister(socket_path)
                return False
        with self._changed:
            self._changed.notify_all()
        return fault is None

    def _add(self, info: registration.PluginInfo, socket_path: Path) -> None:
        channel = grpc.insecure_channel(f"unix:{info.endpoint or socket_path}", options=(OWN_CONNECTION,))
        plugin = Plugin(
            name=info.name,
            endpoint=info.endpoint,
            socket=socket_path,
            supported_versions=tuple(info.supported_versions),
            service=next(each for each in info.supported_versions if each in self.manners.dra_services),
            health_service=next((each for each in self.manners.health_services if each in info.supported_versions), None),
            channel=channel,
        )
        with self._changed:
            self._plugins[socket_path] = plugin
            self._order.append(socket_path)

        def connectivity(state: grpc.ChannelConnectivity) -> None:
            with self._changed:
                plugin.is_connected = state is grpc.ChannelConnectivity.READY
                self._changed.notify_all()

        channel.subscribe(connectivity, try_to_connect=True)
        if plugin.health_service is not None:
            thread = threading.Thread(target=self._read_health, args=(plugin,), name="fake-kubelet-health")
            plugin.threads.append(thread)
            thread.start()

    def _deregister(self, socket_path: Path) -> None:
        with self._changed:
            plugin = self._plugins.pop(socket_path, None)
            if plugin is None:
                return
            self._order.remove(socket_path)
            plugin.is_gone.set()
            stream = plugin.stream
            self._changed.notify_all()
        if stream is not None:
            stream.cancel()
        plugin.channel.close()
        for thread in plugin.threads:
            thread.join()

    def _read_health(self, plugin: Plugin) -> None:
        while not plugin.is_gone.is_set():
            with contextlib.suppress(grpc.RpcError, ValueError):
                stream = kubelet_wire.watch_health(plugin.channel, plugin.health_service)
                with self._changed:
                    plugin.stream = stream
                if plugin.is_gone.is_set():
                    stream.cancel()
                for message in stream:
                    self._note_health(plugin, message)
            with self._changed:
                plugin.health.clear()
                self._changed.notify_all()
            plugin.is_gone.wait(self.manners.health_retry_s)

    def _note_health(self, plugin: Plugin, message: Any) -> None:
        with self._changed:
            plugin.health_messages += 1
            for each in message.devices:
                key = (each.device.pool_name, each.device.device_name)
                plugin.health[key] = (health_v1.HealthStatus.Name(each.health), each.message)
            self._changed.notify_all()
