"""``gpu-dra controller``: allocates the claims of the whole cluster's fenced devices until it is told to stop."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
from typing import TYPE_CHECKING

from driver.cli.parser import Commands
from driver.config.load import add_flags, load
from driver.config.settings import Settings, names_of
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from driver.controller.settings import ControllerSettings

GRACE_S = 20.0
"""A pod has 30 s after SIGTERM: claims that are being written are finished, then the lease is given back."""
_CLUSTER = frozenset({"driver_name", "kubeconfig", "pod_uid"})
HOLD_AFTER_S = 900.0
HOLD_PATIENCE_S = 900.0

_DESCRIPTION = """\
Allocate claims for devices that are fenced from kube-scheduler (kubelet-plugin
--allocation controller, or the node label gpu.nvidia.com/allocator): choose the
set of GPUs, the node and the moment, keep NVLink islands whole, and say why
something waits. Run two or more: one leads, the others stand by. Needs
Kubernetes 1.36 or later; below, it says so and leaves all claims alone."""

_EPILOG = """\
settings come from, later ones win: defaults, the config file, the environment
(GPU_DRA_<NAME>), flags. --print-settings shows what that makes, with its origin.

with --health-address, over HTTP:
  /healthz   503 where a restart helps
  /readyz    what it does, in a line: stands by, lists, decides; 503 until it can
  /metrics   decisions, waits, writes, free GPUs, the largest free island

what people see, as events on pods and claims:
  ClaimWaiting, ClaimPlaced, ClaimLeftAlone, ClaimTakenBack, DeviceInTwoClaims

signals:
  SIGTERM, SIGINT  finish what is being written, give the lease back, end with 0

examples:
  gpu-dra controller --kubeconfig admin.kubeconfig --health-address :8080
  gpu-dra controller --unbound-s 120 --hold off

exit codes: 0 told to stop; 1 failed; 2 wrong settings; 4 the lease was lost: to
be started again, it then stands by.
Next: `kubectl describe pod` shows why a pod waits; docs/controller.md."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "controller", help="allocate the cluster's fenced devices", description=_DESCRIPTION, epilog=_EPILOG
    )
    add_flags(parser, _CLUSTER | names_of("controller", "process"), check=build_controller_settings)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM.

    Raises:
        SettingsInvalid: what was asked for is wrong.
        LeadershipLost: another controller leads, or might.
        DriverError: the health address cannot be had.
    """
    from driver import log  # noqa: PLC0415
    from driver.controller.controller import Controller  # noqa: PLC0415  (with it come the allocator, CEL and msgspec)
    from driver.kube.credentials import read_credentials  # noqa: PLC0415

    settings = load(args, os.environ)
    log.start(form=settings.log_format, level=settings.log_level)
    controller = Controller(build_controller_settings(settings), read_credentials(str(settings.kubeconfig or "")))
    controller.end_on(signal.SIGTERM)
    controller.end_on(signal.SIGINT)
    has_ended = True
    try:
        controller.run()
    finally:
        has_ended = controller.stop(GRACE_S)
    if not has_ended:
        log.event(log.logger(__name__), log.WARNING, "a write hangs; ending without it, and without giving the lease back")
        os._exit(0)
    return 0


def build_controller_settings(settings: Settings) -> ControllerSettings:
    """The controller's own, from the process's.

    Raises:
        SettingsInvalid: the times of the election do not go together, or health would be served where HTTP cannot be.
    """
    if settings.health_address.startswith("unix:"):
        raise SettingsInvalid(
            f"{settings.origins['health_address']}: {settings.health_address} is a unix socket, and the controller serves "
            "HTTP: HOST:PORT or :PORT is needed"
        )
    from driver.allocator.hold import HoldRule  # noqa: PLC0415
    from driver.controller.deciding.takeback import IdleRule  # noqa: PLC0415
    from driver.controller.election.lease import ElectionSettings, build_identity  # noqa: PLC0415
    from driver.controller.settings import ControllerSettings  # noqa: PLC0415

    election = ElectionSettings(
        namespace=settings.namespace,
        name=settings.lease_name,
        identity=build_identity(settings.pod_name, settings.pod_uid, secrets.token_hex(8)),
        lease_s=settings.lease_s,
        renew_s=settings.renew_s,
        retry_s=settings.retry_s,
        request_timeout_s=settings.request_timeout_s,
    )
    is_held = settings.hold == "on"
    return ControllerSettings(
        driver_name=settings.driver_name,
        election=election,
        schedulers=frozenset(settings.schedulers.split(",")),
        health_address=settings.health_address,
        idle=IdleRule(unbound_s=settings.unbound_s),
        hold=HoldRule(after_s=HOLD_AFTER_S, hold_patience_s=HOLD_PATIENCE_S) if is_held else None,
    )
