"""Telling the kubelet that this plugin is there, and staying told.

The kubelet watches its registration folder. It finds our socket, asks ``GetInfo``, and says with ``NotifyRegistrationStatus``
how it went. After its own restart it does the same with every socket that it finds, so for that there is nothing to do. What
it cannot mend is a socket that somebody has removed from the folder: the file is then made anew here.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from driver import log
from driver.errors import SocketUnusable
from driver.pb.pluginregistration.v1 import api_pb2, api_pb2_grpc
from driver.plugin.folder_watch import FolderWatch
from driver.plugin.instance import make_registry_folder
from driver.plugin.listener import UnixListener, make_server

_LOG = log.logger(__name__)

PLUGIN_TYPE = "DRAPlugin"
SUPPORTED_VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""Labels, not gRPC names. The kubelet takes the first DRAPlugin of this list that it knows, so the newest stands first."""

SETTLE_S = 0.5
"""A socket that vanished is put back after this, so that a folder that is being wiped is wiped by then."""
MAX_RETRY_S = 30.0
_MAX_REASON = 1024
_STOP_S = 2.0


class Phase(enum.Enum):
    """How far the kubelet has come with us."""

    NEVER_ASKED = "never asked"
    ASKED = "asked"
    REGISTERED = "registered"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationStatus:
    """What the kubelet last did; ``reason`` is the kubelet's own text of a refusal."""

    phase: Phase = Phase.NEVER_ASKED
    reason: str = ""
    count: int = 0
    """How often it said "registered"."""


def describe_registration(status: RegistrationStatus, registration_socket: Path) -> str:
    """What an operator needs to know and do, for each phase in other words (B58)."""
    match status.phase:
        case Phase.NEVER_ASKED:
            return (
                f"the kubelet has not asked for this plugin: it watches plugins_registry under its own root directory, and "
                f"our socket is in {registration_socket.parent}; set the plugin's registration folder to the kubelet's, and "
                f"see that a kubelet runs and that this folder of the host is mounted at the same path"
            )
        case Phase.ASKED:
            return (
                f"the kubelet asked at {registration_socket} and did not say how registration ended; "
                f"look for RegisterPlugin in the kubelet's log"
            )
        case Phase.REFUSED:
            return f"the kubelet refused the plugin: {status.reason}"
        case Phase.REGISTERED:
            return f"registered with the kubelet at {registration_socket}"


class RegistrationService(api_pb2_grpc.RegistrationServicer):
    """The kubelet's two questions. ``changed`` is called after each change of the status, and returns at once."""

    def __init__(self, *, driver_name: str, endpoint: Path, changed: Callable[[], None]) -> None:
        self._info = api_pb2.PluginInfo(
            type=PLUGIN_TYPE, name=driver_name, endpoint=str(endpoint), supported_versions=SUPPORTED_VERSIONS
        )
        self._changed = changed
        self._lock = threading.Lock()
        self._status = RegistrationStatus()

    def status(self) -> RegistrationStatus:
        """What the kubelet last did."""
        with self._lock:
            return self._status

    def GetInfo(self, request: api_pb2.InfoRequest, context: grpc.ServicerContext) -> api_pb2.PluginInfo:  # noqa: ARG002, N802
        """Who we are. The kubelet allows one second."""
        with self._lock:
            if self._status.phase is Phase.NEVER_ASKED:
                self._status = RegistrationStatus(phase=Phase.ASKED)
        self._changed()
        return self._info

    def NotifyRegistrationStatus(  # noqa: N802
        self,
        request: api_pb2.RegistrationStatus,
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> api_pb2.RegistrationStatusResponse:
        """How it went. An error here would make the kubelet take a success back, so there is none."""
        with self._lock:
            count = self._status.count
            if request.plugin_registered:
                self._status = RegistrationStatus(phase=Phase.REGISTERED, count=count + 1)
            else:
                reason = request.error[:_MAX_REASON] or "the kubelet gave no reason"
                self._status = RegistrationStatus(phase=Phase.REFUSED, reason=reason, count=count)
        self._changed()
        return api_pb2.RegistrationStatusResponse()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationEvents:
    """Who is told, on the registrar's own thread. A call that takes long only delays the next one."""

    on_registered: Callable[[], None]
    on_trouble: Callable[[str], None]
    """A refusal, a kubelet that never asks, a socket that cannot be put back; once for each occasion."""


class Registrar:
    """The registration server, and the thread that watches over its socket."""

    def __init__(
        self, *, driver_name: str, endpoint: Path, socket_path: Path, events: RegistrationEvents, silence_s: float
    ) -> None:
        self._watch = FolderWatch(socket_path.parent)
        self._service = RegistrationService(driver_name=driver_name, endpoint=endpoint, changed=self._watch.wake)
        self._socket_path = socket_path
        self._events = events
        self._silence_s = silence_s
        self._listener = self._make_listener()
        self._told = RegistrationStatus()
        self._silence_at: float | None = None
        self._lost_at: float | None = None
        self._retry_at = 0.0
        self._retry_s = SETTLE_S
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)

    def start(self) -> None:
        """Open the socket; from here on the kubelet may call the DRA service.

        Raises:
            SocketUnusable: the socket cannot be served.
        """
        self._listener.open()
        self._silence_at = time.monotonic() + self._silence_s
        self._thread.start()

    def stop(self) -> None:
        """Take the socket away, which is how the kubelet is told that we leave, and end the server."""
        self._is_stopping = True
        self._watch.wake()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)
        self._listener.remove_file()
        self._listener.stop(_STOP_S)
        if not self._thread.is_alive():
            self._watch.close()

    def status(self) -> RegistrationStatus:
        """What the kubelet last did."""
        return self._service.status()

    def lost_s(self) -> float:
        """For how long the socket has been gone and could not be put back; 0 while it is in its place."""
        lost_at = self._lost_at
        return 0.0 if lost_at is None else time.monotonic() - lost_at

    def _make_listener(self) -> UnixListener:
        server = make_server("registration", max_workers=4, max_calls=16)
        api_pb2_grpc.add_RegistrationServicer_to_server(self._service, server)
        return UnixListener(server, self._socket_path)

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._watch.arm()
                self._tell()
                wait_s = self._keep_in_place()
            except Exception as err:  # noqa: BLE001 - the outermost loop of this thread: whoever is told may have a bug
                log.event(_LOG, log.ERROR, "the registrar failed; going on", error=err, exc=err)
                wait_s = MAX_RETRY_S
            self._watch.wait(wait_s)

    def _tell(self) -> None:
        status, told = self._service.status(), self._told
        self._told = status
        message = describe_registration(status, self._socket_path)
        if status.phase is Phase.REGISTERED and status.count != told.count:
            self._silence_at = None
            log.event(_LOG, log.INFO, "registered with the kubelet", socket=self._socket_path, count=status.count)
            self._events.on_registered()
        elif status.phase is Phase.REFUSED and status != told:
            self._silence_at = None
            log.event(_LOG, log.ERROR, "the kubelet refused the plugin", reason=status.reason)
            self._events.on_trouble(message)
        elif self._silence_at is not None and time.monotonic() >= self._silence_at:
            self._silence_at = None
            log.event(_LOG, log.WARNING, "not registered", detail=message)
            self._events.on_trouble(message)

    def _keep_in_place(self) -> float | None:
        """Put a lost socket back; returns how long to wait before the next look, None for until something happens."""
        if self._listener.is_in_place():
            self._lost_at, self._retry_s = None, SETTLE_S
            return None if self._silence_at is None else self._silence_at - time.monotonic()
        now = time.monotonic()
        if self._lost_at is None:
            log.event(_LOG, log.WARNING, "the registration socket is gone; making it anew", socket=self._socket_path)
            self._lost_at, self._retry_at = now, now + SETTLE_S
        if now < self._retry_at:
            return self._retry_at - now
        return self._put_back()

    def _put_back(self) -> float:
        self._listener.stop(0)
        self._listener = self._make_listener()
        try:
            make_registry_folder(self._socket_path.parent)
            self._listener.open()
        except (OSError, SocketUnusable) as err:
            self._retry_s = min(2 * self._retry_s, MAX_RETRY_S)
            self._retry_at = time.monotonic() + self._retry_s
            message = (
                f"cannot put the registration socket {self._socket_path} back, next try in {self._retry_s:.0f} s: {err}; if "
                f"the folder of the host was replaced, its mount in this pod leads to the old one: restart the pod"
            )
            log.event(_LOG, log.ERROR, "the registration socket cannot be put back", detail=message)
            self._events.on_trouble(message)
            return self._retry_s
        log.event(_LOG, log.INFO, "the registration socket is back", socket=self._socket_path)
        return 0.0
