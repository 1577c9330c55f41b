"""The settings of the controller half alone."""

from __future__ import annotations

import socket

from driver.config import values
from driver.config.setting import Setting


def _seconds(help_: str, default: float) -> Setting:
    return Setting(group="controller", parse=values.parse_decimal_seconds, metavar="SECONDS", help=help_, default=default)


NAMESPACE = Setting(
    group="controller",
    parse=values.parse_namespace,
    metavar="NAME",
    help="where the lease of the leader is; in a pod from fieldRef metadata.namespace",
    default="gpu-dra",
    variable="POD_NAMESPACE",
)
LEASE_NAME = Setting(
    group="controller",
    parse=values.parse_object_in_namespace,
    metavar="NAME",
    help="the lease of the leader; another one for each driver name",
    default="gpu-dra-controller",
)
POD_NAME = Setting(
    group="controller",
    parse=values.parse_object_in_namespace,
    metavar="NAME",
    help="who asks for the lease, together with the pod uid; in a pod from fieldRef metadata.name",
    derive=lambda _: socket.gethostname().lower(),
    default_shown="the host's name",
    variable="POD_NAME",
)
LEASE_S = _seconds("how long the lease of a leader lasts that does not renew it", 15.0)
RENEW_S = _seconds("a leader that could not renew for so long ends; less than the lease", 10.0)
RETRY_S = _seconds("how often the lease is asked for, or renewed", 2.0)
REQUEST_TIMEOUT_S = _seconds(
    "the longest that a write may take: one is sent only while more is left on the lease, and a new leader waits for it",
    5.0,
)
UNBOUND_S = _seconds("an allocation whose pods stay unbound for so long is taken back, and placed otherwise", 60.0)
SCHEDULERS = Setting(
    group="controller",
    parse=values.parse_names,
    metavar="NAME,...",
    help="schedulerNames of the pods that are served",
    default="default-scheduler",
)
HOLD = Setting(
    group="controller",
    parse=values.choice("on", "off"),
    metavar="on|off",
    help="whether a claim for several GPUs that has waited for 15 minutes holds the node where it fits soonest: smaller claims"
    " keep off it until they have waited as long themselves",
    default="on",
)
