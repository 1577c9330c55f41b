"""The plugin as the kubelet sees it: all sockets, opened and closed in the right order."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from driver import log
from driver.claims.model import ClaimService
from driver.pb.dra.v1 import api_pb2 as dra_v1
from driver.pb.dra.v1 import api_pb2_grpc as dra_v1_grpc
from driver.pb.dra.v1beta1 import api_pb2_grpc as dra_v1beta1_grpc
from driver.pb.dra_health.v1 import api_pb2_grpc as health_v1_grpc
from driver.pb.dra_health.v1alpha1 import api_pb2_grpc as health_v1alpha1_grpc
from driver.plugin import probes, sockets
from driver.plugin.dra import DraCalls, DraV1, DraV1Beta1
from driver.plugin.health import HealthSource, HealthStreams, HealthV1, HealthV1Alpha1
from driver.plugin.instance import Instance, take_instance
from driver.plugin.listener import build_target, make_server
from driver.plugin.registration import Phase, Registrar, RegistrationEvents, RegistrationStatus
from driver.plugin.service_socket import ServiceSocket

_LOG = log.logger(__name__)

MAX_CALLS = 512
"""Beyond the workers, calls wait in the queue: better for a node that boots a hundred pods than a refusal and a back-off."""
ROLL_BACK_SHARE = 0.2
"""The part of the grace that cancelled calls have to undo what they began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """What the plugin's servers need to know."""

    driver_name: str
    plugin_dir: Path
    """Ours: the service socket and the locks. The kubelet must see it at the same path."""
    registry_dir: Path
    """The kubelet's ``plugins_registry``."""
    instance: str | None = None
    """The pod's uid, else a random word."""
    probe_address: str | None = None
    """``unix:/path`` or ``host:port``; None for no probe service."""
    silence_s: float = 30.0
    """After this long without a registration the operator is told."""
    max_workers: int = 64
    """Threads for calls, made as they are needed (R15)."""
    self_call_s: float = 3.0
    """An empty prepare touches nothing and takes a millisecond; one that takes this long found no worker."""
    max_lost_s: float = 120.0
    """A registration socket that cannot be put back for so long needs a new mount, which only a restart of the pod brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCallbacks:
    """Who is told, on a thread of the plugin's own, and who is asked."""

    on_registered: Callable[[], None]
    """Each time that the kubelet has registered us: it may just have deleted our slices, and its repeats begin anew."""
    on_trouble: Callable[[str], None] = lambda _: None
    """A refusal with the kubelet's reason, a kubelet that never asks, a socket that cannot be put back; for a node event."""
    is_ready: Callable[[], bool] = lambda: True
    """What else readiness needs; registration is part of it anyway."""


class PluginServer:
    """Started once, stopped once."""

    def __init__(
        self, settings: PluginSettings, claim_service: ClaimService, health_source: HealthSource, callbacks: PluginCallbacks
    ) -> None:
        self.paths = sockets.choose_socket_paths(
            driver_name=settings.driver_name,
            instance=settings.instance or secrets.token_hex(6),
            plugin_dir=settings.plugin_dir,
            registry_dir=settings.registry_dir,
        )
        self._settings = settings
        self._callbacks = callbacks
        self._calls = DraCalls(claim_service)
        self._streams = HealthStreams(health_source)
        self._instance: Instance | None = None
        self._service = ServiceSocket(self._make_service, self.paths.service, callbacks.on_trouble)
        self._registrar = Registrar(
            driver_name=settings.driver_name,
            endpoint=self.paths.service,
            socket_path=self.paths.registration,
            events=RegistrationEvents(on_registered=callbacks.on_registered, on_trouble=callbacks.on_trouble),
            silence_s=settings.silence_s,
        )
        self._probes = self._make_probes(settings.probe_address)

    def start(self) -> None:
        """Serve. The DRA service stands before the registration socket does: the kubelet calls it at once.

        Raises:
            SocketUnusable: a socket or a folder cannot be had, or a live process has this instance's name.
        """
        self._instance = take_instance(self.paths)
        try:
            self._service.open()
            self._registrar.start()
            if self._probes is not None:
                self._probes.start()
        except BaseException:
            self.stop(0.0)
            raise
        log.event(_LOG, log.INFO, "serving", service=self.paths.service, registration=self.paths.registration)

    def stop(self, grace_s: float) -> bool:
        """Leave in good order, within ``grace_s``; True when every call has ended.

        The service goes first and registration last: when the registration socket goes, the kubelet closes its connection to
        the service, and the answers of running calls would be lost with it. Calls that outlast most of the grace are
        cancelled, which their claims notice and undo.
        """
        stop_at = time.monotonic() + grace_s
        if self._probes is not None:
            self._probes.stop()
        self._service.remove_file()
        self._streams.stop()
        self._service.stop(grace_s * (1 - ROLL_BACK_SHARE))
        has_ended = self._calls.in_flight.wait_none(max(0.0, stop_at - time.monotonic()))
        self._registrar.stop()
        if self._instance is not None:
            self._instance.release()
        log.event(_LOG, log.INFO, "stopped serving", all_calls_ended=has_ended)
        return has_ended

    def registration(self) -> RegistrationStatus:
        """What the kubelet last did about us."""
        return self._registrar.status()

    def is_ready(self) -> bool:
        """True while the kubelet can use the plugin."""
        return self.registration().phase is Phase.REGISTERED and self._registrar.lost_s() == 0 and self._callbacks.is_ready()

    def is_live(self) -> bool:
        """False when only a restart helps: calls no longer come through our own socket, or the registry is out of reach."""
        return self._registrar.lost_s() < self._settings.max_lost_s and self._call_self()

    def _call_self(self) -> bool:
        own_connection = (("grpc.use_local_subchannel_pool", 1),)  # an old one would say nothing about the socket's file
        with grpc.insecure_channel(build_target(self.paths.service), options=own_connection) as channel:
            try:
                dra_v1_grpc.DRAPluginStub(channel).NodePrepareResources(
                    dra_v1.NodePrepareResourcesRequest(), timeout=self._settings.self_call_s
                )
            except grpc.RpcError as err:
                log.event(_LOG, log.ERROR, "our own call does not come through", socket=self.paths.service, error=err)
                return False
        return True

    def _make_service(self) -> grpc.Server:
        server = make_server("dra", max_workers=self._settings.max_workers, max_calls=MAX_CALLS)
        dra_v1_grpc.add_DRAPluginServicer_to_server(DraV1(self._calls), server)
        dra_v1beta1_grpc.add_DRAPluginServicer_to_server(DraV1Beta1(self._calls), server)
        health_v1_grpc.add_DRAResourceHealthServicer_to_server(HealthV1(self._streams), server)
        health_v1alpha1_grpc.add_DRAResourceHealthServicer_to_server(HealthV1Alpha1(self._streams), server)
        return server

    def _make_probes(self, address: str | None) -> probes.ProbeServer | None:
        if address is None:
            return None
        questions = {probes.WHOLE_SERVER: self.is_ready, probes.READINESS: self.is_ready, probes.LIVENESS: self.is_live}
        return probes.ProbeServer(address, questions)
