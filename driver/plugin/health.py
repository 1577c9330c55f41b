"""DRAResourceHealth v1 and v1alpha1: what is known of the devices' health now, to whoever asks.

The kubelet opens a stream a plugin and shows the states in the status of pods; it stops nothing by them. A stream gets all
devices when it begins, all again at once when something changed, and all again before the kubelet would call them Unknown.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import grpc

from driver import log
from driver.names import DeviceName, PoolName
from driver.pb.dra_health.v1 import api_pb2 as v1
from driver.pb.dra_health.v1 import api_pb2_grpc as v1_grpc
from driver.pb.dra_health.v1alpha1 import api_pb2 as v1alpha1
from driver.pb.dra_health.v1alpha1 import api_pb2_grpc as v1alpha1_grpc
from driver.plugin.claim_calls import clean_text

_LOG = log.logger(__name__)

MAX_STREAMS = 4
"""Each holds a thread. The kubelet opens one, and its next one may come before the last has been noticed to be dead."""
V1_TIMEOUT_S = 300
V1_RESEND_S = 60.0
"""A kubelet that speaks v1 (1.37) heeds ``health_check_timeout_seconds`` (R41), but forgets all states when a stream of any
instance ends: what it forgot unseen comes back with this."""
V1ALPHA1_RESEND_S = 25.0
"""An older one may not: it calls a device Unknown after 30 seconds of silence."""


class Health(enum.IntEnum):
    """The values of the wire."""

    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """The health of a device. When it was looked at makes no difference to what is said: equal without it."""

    pool: PoolName
    device: DeviceName
    health: Health
    last_updated_s: int = field(compare=False)
    """Seconds since the epoch."""
    message: str = ""
    """Why, for people; at most 1024 bytes are shown."""


class HealthSource(Protocol):
    """What is known now. A source answers from memory: a stream that starts must not wait for hardware."""

    def snapshot(self) -> tuple[DeviceHealth, ...]:
        """The health of every device of the node, as known now."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed``, which returns at once, after each change of the snapshot; returns what ends that."""


class HealthBoard:
    """A ``HealthSource`` that is told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: tuple[DeviceHealth, ...] = ()
        self._watchers: dict[object, Callable[[], None]] = {}

    def post(self, devices: tuple[DeviceHealth, ...]) -> None:
        """Say how all devices are now. Streams are woken only when this differs from what was said last."""
        with self._lock:
            has_changed = devices != self._devices
            self._devices = devices
            watchers = tuple(self._watchers.values()) if has_changed else ()
        for changed in watchers:
            changed()

    def say_again(self) -> None:
        """Have the streams say what was said last: the kubelet forgets it when another instance's stream ends."""
        with self._lock:
            watchers = tuple(self._watchers.values())
        for changed in watchers:
            changed()

    def snapshot(self) -> tuple[DeviceHealth, ...]:
        """What was posted last."""
        with self._lock:
            return self._devices

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` after each change; returns what ends that."""
        key = object()
        with self._lock:
            self._watchers[key] = changed

        def forget() -> None:
            with self._lock:
                self._watchers.pop(key, None)

        return forget


class HealthStreams:
    """The streams of both versions, which share the slots."""

    def __init__(self, source: HealthSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._open: set[threading.Event] = set()
        self._is_stopping = False

    def watch(self, context: grpc.ServicerContext, resend_s: float) -> Iterator[tuple[DeviceHealth, ...]]:
        """What to send, when it is to be sent; ends when the caller goes or the server stops."""
        woken = threading.Event()
        with self._lock:
            has_slot = not self._is_stopping and len(self._open) < MAX_STREAMS
            if has_slot:
                self._open.add(woken)
        if not has_slot:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} health streams are open; end one of them first")
        forget = self._source.watch(woken.set)

        def end() -> None:
            forget()
            with self._lock:
                self._open.discard(woken)
            woken.set()

        if not context.add_callback(end):
            end()
        log.event(_LOG, log.DEBUG, "a health stream begins", resend_s=resend_s)
        while self._is_open(woken):
            woken.clear()
            if self._is_open(woken):
                yield self._source.snapshot()
                woken.wait(resend_s)

    def count(self) -> int:
        """How many streams are open."""
        with self._lock:
            return len(self._open)

    def stop(self) -> None:
        """End all streams, so that a graceful stop of the server need not wait for callers that never go."""
        with self._lock:
            self._is_stopping = True
            streams = tuple(self._open)
        for woken in streams:
            woken.set()

    def _is_open(self, woken: threading.Event) -> bool:
        with self._lock:
            return not self._is_stopping and woken in self._open


class HealthV1(v1_grpc.DRAResourceHealthServicer):
    """``v1.DRAResourceHealth``."""

    def __init__(self, streams: HealthStreams) -> None:
        self._streams = streams

    def NodeWatchResources(  # noqa: N802
        self,
        request: v1.NodeWatchResourcesRequest,  # noqa: ARG002
        context: grpc.ServicerContext,
    ) -> Iterator[v1.NodeWatchResourcesResponse]:
        """All devices, again and again."""
        for devices in self._streams.watch(context, V1_RESEND_S):
            yield v1.NodeWatchResourcesResponse(
                devices=[
                    v1.DeviceHealth(
                        device=v1.DeviceIdentifier(pool_name=each.pool, device_name=each.device),
                        health=v1.HealthStatus.Value(each.health.name),
                        last_updated_time=each.last_updated_s,
                        health_check_timeout_seconds=V1_TIMEOUT_S,
                        message=clean_text(each.message),
                    )
                    for each in devices
                ]
            )


class HealthV1Alpha1(v1alpha1_grpc.DRAResourceHealthServicer):
    """``v1alpha1.DRAResourceHealth``: the same messages, sent more often."""

    def __init__(self, streams: HealthStreams) -> None:
        self._streams = streams

    def NodeWatchResources(  # noqa: N802
        self,
        request: v1alpha1.NodeWatchResourcesRequest,  # noqa: ARG002
        context: grpc.ServicerContext,
    ) -> Iterator[v1alpha1.NodeWatchResourcesResponse]:
        """All devices, again and again."""
        for devices in self._streams.watch(context, V1ALPHA1_RESEND_S):
            yield v1alpha1.NodeWatchResourcesResponse(
                devices=[
                    v1alpha1.DeviceHealth(
                        device=v1alpha1.DeviceIdentifier(pool_name=each.pool, device_name=each.device),
                        health=v1alpha1.HealthStatus.Value(each.health.name),
                        last_updated_time=each.last_updated_s,
                        message=clean_text(each.message),
                    )
                    for each in devices
                ]
            )
