"""The API server as pods reach it: at the address of the service ``kubernetes``, which no kube-proxy serves here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hack.devcluster.layout import DevclusterError, Layout

BRIDGE = "gpudradev0"
SERVICE_ADDRESS = "10.96.0.1"
_ROUTE_LOCALNET = Path("/proc/sys/net/ipv4/conf/all/route_localnet")
_SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def open_service(layout: Layout) -> None:
    """Lead pods' connections to the service's address to the API server, which listens on loopback.

    Raises:
        DevclusterError: iptables refuses.
    """
    close_service(layout)
    _ROUTE_LOCALNET.write_text("1\n")  # else the kernel drops what comes over the bridge for 127.0.0.1
    done = _iptables("-A", layout)
    if done.returncode:
        raise DevclusterError(f"pods cannot reach the API server, iptables refused: {done.stderr}")


def close_service(layout: Layout) -> None:
    """Take the rule away; there may be none."""
    _iptables("-D", layout)


def _iptables(action: str, layout: Layout) -> subprocess.CompletedProcess[str]:
    rule = ["-i", BRIDGE, "-d", SERVICE_ADDRESS, "-p", "tcp", "--dport", "443"]
    target = ["-j", "DNAT", "--to-destination", f"127.0.0.1:{layout.api_port}"]
    command = ["iptables", "-w", "5", "-t", "nat", action, "PREROUTING", *rule, *target]
    environment = {**os.environ, "PATH": _SEARCH_PATH}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
