"""Credentials from a kubeconfig's exec plugin, run by the ``kubernetes`` package; only then is that package imported.

The plugin's token is used until it ends or the server refuses it; then the plugin is run again. A client certificate from a
plugin is used as it is for the life of the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kubernetes.config.config_exception import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

from driver.errors import SettingsInvalid
from driver.kube.credentials import Authorization, FixedHeader, is_header_text

_EARLY_S = 30.0
"""A token is renewed this long before its end, so that no request leaves with one that ends on the way."""

RunPlugin = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCredentials:
    """What one plugin gave: a header's source, or a client certificate, or both."""

    authorization: Authorization
    client_cert_pem: str = ""
    client_key_pem: str = field(default="", repr=False)


class PluginToken:
    """A bearer token that the plugin gives again when it ends or is refused."""

    def __init__(self, run: RunPlugin, first: Mapping[str, Any], *, where: str, clock: Callable[[], float] = time.time) -> None:
        self._run = run
        self._where = where
        self._clock = clock
        self._lock = threading.Lock()
        self._use(first)

    def read_header(self) -> str | None:
        """``Bearer <token>``, after running the plugin again when the token is at its end."""
        with self._lock:
            if self._clock() >= self._ends_at - _EARLY_S:
                self._use(self._run())
            return f"Bearer {self._token}"

    def forget(self) -> bool:
        """Run the plugin at the next request."""
        with self._lock:
            self._ends_at = float("-inf")
        return True

    def _use(self, status: Mapping[str, Any]) -> None:
        token = status.get("token")
        if not isinstance(token, str) or not is_header_text(token):
            raise SettingsInvalid(f"{self._where}.exec: the plugin gave no usable token")
        self._token = token
        self._ends_at = _parse_end(status.get("expirationTimestamp"), where=self._where)


def run_exec_plugin(config: object, *, directory: Path, where: str) -> PluginCredentials:
    """Run the plugin once. Raises ``SettingsInvalid`` with the plugin's own words when it fails."""
    if not isinstance(config, dict):
        raise SettingsInvalid(f"{where}.exec must be a mapping with apiVersion and command")

    def run() -> Mapping[str, Any]:
        try:
            plugin = ExecProvider(ConfigNode(f"{where}.exec", config), str(directory))  # type: ignore[no-untyped-call]
            status = plugin.run()  # type: ignore[no-untyped-call]
        except (ConfigException, OSError, TypeError, KeyError) as err:
            hint = config.get("installHint") if isinstance(err, FileNotFoundError) else None
            raise SettingsInvalid(
                f"{where}.exec: running {config.get('command')!r}: {err}{f'; {hint}' if hint else ''}"
            ) from err
        if not isinstance(status, dict):
            raise SettingsInvalid(f"{where}.exec: the plugin's status is not a mapping")
        return status

    status = run()
    cert, key = str(status.get("clientCertificateData") or ""), str(status.get("clientKeyData") or "")
    if bool(cert) != bool(key) or not (cert or status.get("token")):
        raise SettingsInvalid(f"{where}.exec: the plugin gave neither a token nor a client certificate with its key")
    token = PluginToken(run, status, where=where) if status.get("token") else FixedHeader()
    return PluginCredentials(authorization=token, client_cert_pem=cert, client_key_pem=key)


def _parse_end(stamp: object, *, where: str) -> float:
    """Seconds since the epoch; infinity where the plugin names no end."""
    if stamp is None:
        return float("inf")
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError as err:
        raise SettingsInvalid(f"{where}.exec: expirationTimestamp {stamp!r} is not a time") from err
