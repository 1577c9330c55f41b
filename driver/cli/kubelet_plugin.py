"""``gpu-dra kubelet-plugin``: serves the kubelet of one node until it is told to stop."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import os
import signal
from typing import TYPE_CHECKING

from driver.cli.parser import Commands
from driver.config.load import add_flags, load
from driver.config.settings import Settings, names_of
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from driver.node.settings import NodeSettings

_M_ARENA_MAX = -8
GRACE_S = 25.0
"""A pod has 30 s after SIGTERM; a prepare that runs gets most of them."""

_DESCRIPTION = """\
Serve this node's kubelet: publish the GPUs as ResourceSlices, register, and
prepare and unprepare claims. Runs until SIGTERM. Needs no GPU and no API server
to start: it registers, unprepares, and looks for both until they are there."""

_EPILOG = """\
settings come from, later ones win: defaults, the config file, the environment
(GPU_DRA_<NAME>), flags. --print-settings shows what that makes, with its origin.

signals:
  SIGTERM, SIGINT  answer the running calls, leave the sockets, end with code 0
  SIGHUP           read the machine again now (it is read every 5 minutes anyway)

with --metrics-address, over HTTP:
  /metrics   claims, steps, devices, islands, health; what each GPU is busy with,
             and who holds it (docs/metrics.md)

examples:
  gpu-dra kubelet-plugin --node-name node-a --metrics-address :8081
  gpu-dra kubelet-plugin --node-name node-a --nvml mock:dgx-h100 --kubeconfig admin.kubeconfig

exit codes: 0 told to stop; 1 failed; 2 wrong settings; 3 another driver of the
same name publishes this node's devices.
Next: `gpu-dra inspect` shows what it would publish; docs/cli.md has all settings."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser("kubelet-plugin", help="serve this node's kubelet", description=_DESCRIPTION, epilog=_EPILOG)
    add_flags(parser, names_of("hardware", "health", "cluster", "folders", "figures", "process"), check=check_addresses)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM.

    Raises:
        SettingsInvalid, MachineInvalid: what was asked for is wrong.
        AnotherPublisher: another driver of the same name serves this node.
        DriverError: a folder or a socket cannot be had.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be heeded; the first pass comes by itself
    from driver import log  # noqa: PLC0415
    from driver.cli.backend import OpenedForEachPass, open_backend, open_nvml  # noqa: PLC0415  (with it come gRPC, msgspec and the rest)
    from driver.kube.client import KubeClient  # noqa: PLC0415
    from driver.kube.credentials import read_credentials  # noqa: PLC0415
    from driver.node.node_plugin import Ask, NodePlugin  # noqa: PLC0415

    settings = load(args, os.environ, required=("node_name",))
    check_addresses(settings)
    os.umask(0o077)
    _bound_memory()
    log.start(form=settings.log_format, level=settings.log_level)
    backend = open_backend(settings, settings.mock_state_dir)
    client = KubeClient(read_credentials(str(settings.kubeconfig or "")))
    open_library = functools.partial(open_nvml, backend)
    plugin = NodePlugin(_build_node_settings(settings), OpenedForEachPass(backend), backend.roots, client, open_library)
    plugin.heed(signal.SIGTERM, Ask.END)
    plugin.heed(signal.SIGINT, Ask.END)
    plugin.heed(signal.SIGHUP, Ask.LOOK_AGAIN)
    try:
        plugin.start()
        plugin.wait()
    finally:
        has_ended = plugin.stop(GRACE_S)
    if not has_ended:
        # Python would join the thread of a call that hangs, for longer than the pod is given; records are whole at any moment.
        log.event(log.logger(__name__), log.WARNING, "a call hangs; ending without it")
        os._exit(0)
    return 0


def check_addresses(settings: Settings) -> None:
    """Whether both servers can have what they are given.

    Raises:
        SettingsInvalid: metrics would be served where HTTP cannot be, or where health is.
    """
    address = settings.metrics_address
    if address.startswith("unix:"):
        raise SettingsInvalid(
            f"{settings.origins['metrics_address']}: {address} is a unix socket, and metrics are served over HTTP: "
            "HOST:PORT or :PORT is needed"
        )
    if address and address == settings.health_address:
        raise SettingsInvalid(
            f"{settings.origins['metrics_address']}: {address} is where health is served "
            f"({settings.origins['health_address']}); two servers need two ports"
        )


def _bound_memory() -> None:
    """Two arenas for all threads: glibc makes eight a core, and a burst of calls would leave a part of each behind."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _build_node_settings(settings: Settings) -> NodeSettings:
    from driver.health.model import Kind  # noqa: PLC0415
    from driver.node.health.watch import HealthSettings  # noqa: PLC0415
    from driver.node.settings import NodeSettings  # noqa: PLC0415
    from driver.resourceslice.attributes import Allocator  # noqa: PLC0415
    from driver.resourceslice.shares import parse_setting  # noqa: PLC0415
    from driver.topology.mig_offer import MigSetting  # noqa: PLC0415

    return NodeSettings(
        driver_name=settings.driver_name,
        node_name=settings.node_name,
        allocator=Allocator(settings.allocation),
        mig=MigSetting(settings.mig),
        shares=parse_setting(settings.consumable_shares),
        health=HealthSettings(
            ignored_xids=frozenset(int(xid) for xid in settings.ignored_xids.split(",") if xid),
            evicts=frozenset(Kind(kind) for kind in settings.evict_for.split(",") if kind),
            holds_nvml=settings.health_events == "on",
        ),
        drain_s=float(settings.drain_time),
        controller_lease=settings.controller_lease,
        kubelet_root=settings.kubelet_root,
        registry_dir=settings.registry_dir,
        plugin_dir=settings.plugin_dir,
        cdi_root=settings.cdi_root,
        mps_dir=settings.mps_dir,
        isolates_mps=settings.nvml == "real",
        instance=settings.pod_uid or None,
        probe_address=settings.health_address or None,
        metrics_address=settings.metrics_address,
    )
